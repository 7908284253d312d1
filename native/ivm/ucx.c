/* ucx.c: the network of nodes (net.h), by active messages of UCX. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "net.h"

/* Longer data goes straight into the copy of the receiver. Shorter data comes with the message. */
enum { RENDEZVOUS = 64 << 10 };

enum message {
	GET,  /* the receiver is to send bytes of its copy */
	DATA, /* they come */
	PUT,  /* bytes for a copy of the receiver */
	COPY, /* the receiver is to get bytes from a third node */
	DONE, /* the result of PUT or COPY */
};

struct header {
	uint64_t operation; /* the number that the asker gave it */
	uint64_t object;
	struct range range;
	struct home from, to;
	int32_t asker, result;
};

/* What this node waits for. */
struct operation {
	struct operation *next;
	uint64_t number;
	uint64_t ticket; /* of this node's own transfer, or the number of another node's operation */
	int32_t asker;
	int32_t peer; /* which this node waits for */
	void *held;
	char *at;
};

struct sending {
	struct header header;
	uint64_t waits; /* the number of this node's operation that waits for an answer, or 0 */
	void *held;
};

struct peer {
	ucp_address_t *address;
	ucp_ep_h endpoint; /* NULL until it is needed */
	bool broken;
};

static struct net_node node;
static ucp_worker_h worker;
static struct peer *peers;
static int peer_count;
static struct operation *operations;
static uint64_t last_number;
static int sendings; /* that UCX has not ended */

static struct operation *begin(uint64_t ticket, int32_t asker, int32_t peer)
{
	struct operation *o = calloc(1, sizeof *o);

	if (o == NULL)
		return NULL;
	*o = (struct operation){.next = operations, .number = ++last_number, .ticket = ticket, .asker = asker, .peer = peer};
	operations = o;
	return o;
}

static struct operation *find(uint64_t number)
{
	struct operation *o = operations;

	while (o != NULL && o->number != number)
		o = o->next;
	return o;
}

static void send_message(int32_t to, enum message message, const struct header *header, const void *data, size_t bytes, void *held);

/* tell says a result to the node that has asked. */
static void tell(int32_t asker, uint64_t ticket, int result)
{
	if (asker == node.number)
		node.done(ticket, result);
	else
		send_message(asker, DONE, &(struct header){.operation = ticket, .result = result}, NULL, 0, NULL);
}

static void finish(struct operation *o, int result)
{
	struct operation **link = &operations;

	while (*link != o)
		link = &(*link)->next;
	*link = o->next;
	const int failed = o->held != NULL ? node.release(o->held, result == 0) : 0;
	tell(o->asker, o->ticket, result != 0 ? result : failed);
	free(o);
}

/* broken ends what waits for a node that cannot be reached any more. */
static void broken(void *argument, ucp_ep_h endpoint, ucs_status_t status)
{
	const int32_t number = (int32_t)((struct peer *)argument - peers);

	(void)endpoint;
	(void)status;
	peers[number].broken = true;
	for (struct operation *o = operations; o != NULL;)
		if (o->peer == number) {
			finish(o, -EIO);
			o = operations;
		} else {
			o = o->next;
		}
}

static ucp_ep_h reach(int32_t number)
{
	struct peer *p = &peers[number];
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = p->address,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = {.cb = broken, .arg = p},
	};

	if (p->endpoint == NULL && !p->broken && ucp_ep_create(worker, &params, &p->endpoint) != UCS_OK)
		p->endpoint = NULL;
	return p->broken ? NULL : p->endpoint;
}

static void sent(void *request, ucs_status_t status, void *argument)
{
	struct sending *s = argument;

	struct operation *waiting = find(s->waits);

	sendings--;
	if (status != UCS_OK && waiting != NULL)
		finish(waiting, -EIO);
	if (s->held != NULL)
		node.release(s->held, false);
	free(s);
	if (request != NULL)
		ucp_request_free(request);
}

/* send_message sends bytes that are held until they are sent. */
static void send_message(int32_t to, enum message message, const struct header *header, const void *data, size_t bytes, void *held)
{
	struct sending *s = malloc(sizeof *s);
	const ucp_ep_h endpoint = s != NULL ? reach(to) : NULL;

	if (s == NULL)
		abort(); /* which ends the application */
	sendings++;
	s->header = *header;
	s->waits = message == GET || message == PUT || message == COPY ? header->operation : 0;
	s->held = held;
	if (endpoint == NULL) {
		sent(NULL, UCS_ERR_UNREACHABLE, s);
		broken(&peers[to], NULL, UCS_ERR_UNREACHABLE);
		return;
	}
	const ucp_request_param_t params = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
		.flags = bytes > RENDEZVOUS ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER,
		.cb.send = sent,
		.user_data = s,
	};
	const ucs_status_ptr_t request = ucp_am_send_nbx(endpoint, message, &s->header, sizeof s->header, data, bytes, &params);
	if (!UCS_PTR_IS_PTR(request)) /* it is sent, or has failed, and sent is not called */
		sent(NULL, UCS_PTR_STATUS(request), s);
}

/* What the other nodes send. */

static void received(void *request, ucs_status_t status, size_t length, void *argument)
{
	struct operation *o = find((uint64_t)(uintptr_t)argument);

	(void)length;
	ucp_request_free(request);
	if (o != NULL) /* it has not ended because the node is gone */
		finish(o, status == UCS_OK ? 0 : -EIO);
}

/* take puts the data of a message where its operation says. */
static ucs_status_t take(struct operation *o, void *data, size_t length, const ucp_am_recv_param_t *param)
{
	const ucp_request_param_t params = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.cb.recv_am = received,
		.user_data = (void *)(uintptr_t)o->number,
	};

	if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
		memcpy(o->at, data, length);
		finish(o, 0);
		return UCS_OK;
	}
	const ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker, data, o->at, length, &params);
	if (!UCS_PTR_IS_PTR(request))
		finish(o, request == NULL ? 0 : -EIO);
	return UCS_OK;
}

static ucs_status_t on_get(void *argument, const void *header, size_t header_length, void *data, size_t length, const ucp_am_recv_param_t *param)
{
	struct header h;
	void *held = NULL;

	(void)argument, (void)data, (void)length, (void)param, (void)header_length;
	memcpy(&h, header, sizeof h);
	const char *at = node.hold(h.object, h.from.dev, h.range, false, &held);
	h.result = at != NULL ? 0 : -errno;
	send_message(h.asker, DATA, &h, at, at != NULL ? h.range.end - h.range.begin : 0, held);
	return UCS_OK;
}

static ucs_status_t on_data(void *argument, const void *header, size_t header_length, void *data, size_t length, const ucp_am_recv_param_t *param)
{
	struct header h;

	(void)argument, (void)header_length;
	memcpy(&h, header, sizeof h);
	struct operation *o = find(h.operation);
	if (o == NULL)
		return UCS_OK;
	if (h.result == 0)
		return take(o, data, length, param);
	finish(o, h.result);
	return UCS_OK;
}

static ucs_status_t on_put(void *argument, const void *header, size_t header_length, void *data, size_t length, const ucp_am_recv_param_t *param)
{
	struct header h;

	(void)argument, (void)header_length;
	memcpy(&h, header, sizeof h);
	struct operation *o = begin(h.operation, h.asker, h.asker);
	if (o == NULL)
		abort();
	o->at = node.hold(h.object, h.to.dev, h.range, true, &o->held);
	if (o->at != NULL && length == h.range.end - h.range.begin)
		return take(o, data, length, param);
	finish(o, o->at != NULL ? -EPROTO : -errno);
	return UCS_OK;
}

/* get_for gets bytes for a copy of this node from another node or its own copy. */
static void get_for(struct operation *o, const struct header *h)
{
	struct header own = *h;
	const size_t bytes = h->range.end - h->range.begin;

	o->at = node.hold(h->object, h->to.dev, h->range, true, &o->held);
	if (o->at == NULL) {
		finish(o, -errno);
		return;
	}
	if (h->from.node != node.number) {
		own.operation = o->number;
		own.asker = node.number;
		send_message(h->from.node, GET, &own, NULL, 0, NULL);
		return;
	}
	void *held;
	const char *from = node.hold(h->object, h->from.dev, h->range, false, &held);
	if (from == NULL) {
		finish(o, -errno);
		return;
	}
	memcpy(o->at, from, bytes);
	node.release(held, false);
	finish(o, 0);
}

static ucs_status_t on_copy(void *argument, const void *header, size_t header_length, void *data, size_t length, const ucp_am_recv_param_t *param)
{
	struct header h;

	(void)argument, (void)data, (void)length, (void)param, (void)header_length;
	memcpy(&h, header, sizeof h);
	struct operation *o = begin(h.operation, h.asker, h.from.node);
	if (o == NULL)
		abort();
	get_for(o, &h);
	return UCS_OK;
}

static ucs_status_t on_done(void *argument, const void *header, size_t header_length, void *data, size_t length, const ucp_am_recv_param_t *param)
{
	struct header h;

	(void)argument, (void)data, (void)length, (void)param, (void)header_length;
	memcpy(&h, header, sizeof h);
	struct operation *o = find(h.operation);
	if (o != NULL)
		finish(o, h.result);
	return UCS_OK;
}

/* What the node asks. */

static void transfer(uint64_t ticket, uint64_t object, struct range range, struct home from, struct home to)
{
	struct header h = {.object = object, .range = range, .from = from, .to = to, .asker = node.number};
	const bool known = from.node >= 0 && from.node < peer_count && to.node >= 0 && to.node < peer_count && range.begin <= range.end;
	struct operation *o = known ? begin(ticket, node.number, to.node != node.number ? to.node : from.node) : NULL;

	if (o == NULL) {
		node.done(ticket, known ? -ENOMEM : -EINVAL);
		return;
	}
	h.operation = o->number;
	if (to.node == node.number) {
		get_for(o, &h);
	} else if (from.node == node.number) {
		void *held;
		const char *at = node.hold(object, from.dev, range, false, &held);
		if (at != NULL)
			send_message(to.node, PUT, &h, at, range.end - range.begin, held);
		else
			finish(o, -errno);
	} else {
		send_message(to.node, COPY, &h, NULL, 0, NULL);
	}
}

static const char *open_worker(const struct net_node *own, const void **address, size_t *size, int *fd)
{
	static const struct {
		enum message message;
		ucp_am_recv_callback_t call;
	} handlers[] = {{GET, on_get}, {DATA, on_data}, {PUT, on_put}, {COPY, on_copy}, {DONE, on_done}};
	const ucp_params_t of_context = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
	const ucp_worker_params_t of_worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
	ucp_context_h context;
	ucp_address_t *found;

	node = *own;
	ucs_status_t status = ucp_init(&of_context, NULL, &context);
	if (status == UCS_OK)
		status = ucp_worker_create(context, &of_worker, &worker);
	for (size_t i = 0; status == UCS_OK && i < sizeof handlers / sizeof *handlers; i++) {
		const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB,
							.id = handlers[i].message, .flags = UCP_AM_FLAG_WHOLE_MSG, .cb = handlers[i].call};
		status = ucp_worker_set_am_recv_handler(worker, &handler);
	}
	if (status == UCS_OK)
		status = ucp_worker_get_address(worker, &found, size);
	if (status == UCS_OK)
		status = ucp_worker_get_efd(worker, fd);
	*address = found;
	return status == UCS_OK ? NULL : ucs_status_string(status);
}

static const char *meet(const void *address, size_t size)
{
	struct peer *more = realloc(peers, (size_t)(peer_count + 1) * sizeof *more);
	ucp_address_t *own = malloc(size);

	if (more != NULL)
		peers = more;
	if (more == NULL || own == NULL)
		return "no memory";
	memcpy(own, address, size);
	peers[peer_count++] = (struct peer){.address = own};
	return NULL;
}

static bool work(void)
{
	/* After MOST times with work PEs have their turn. After IDLE times without, some 100 us, this node sleeps until it is told of work. A
	 * transfer of 1 MiB has 0.65 of the rate of a socket if it sleeps at once. */
	enum { MOST = 16, IDLE = 200 };

	const bool busy = operations != NULL || sendings > 0;

	for (int worked = 0, idle = 0; worked < MOST;)
		if (ucp_worker_progress(worker) != 0)
			worked++;
		else if (!busy || ++idle == IDLE)
			return ucp_worker_arm(worker) != UCS_OK;
	return true;
}

const struct net ivm_net = {open_worker, meet, transfer, work};
