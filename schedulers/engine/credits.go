package engine

import (
	"cmp"
	"math/bits"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// Credits: under this order the user goes first who has spent the least device time for each credit, and of equal ones
// the user with the fewest tasks on devices for each credit. A user spends the time from the grant of each task to its
// release, whoever else is on the device: once for each device of the task, and not while the task waits to resume.
//
// So the order of users changes with time. That of a user's waiting tasks does not, and they have a tree of their own
// (forest).

// ledger has the accounts of all users.
type ledger struct {
	now      time.Duration
	accounts map[string]*account
}

// account is what a user has spent.
type account struct {
	branch int // the tree of the user's waiting tasks, from 1; 0 is that of the aged tasks of all users
	weight uint64
	holds  uint64        // the user's tasks on devices, once for each device
	spent  time.Duration // until since
	since  time.Duration
}

// of is the account of a user, whose credits are those that t says.
func (l *ledger) of(t *schedulers.Terms) *account {
	t = t.OrNone()
	a := l.accounts[t.User]
	if a == nil {
		a = &account{branch: 1 + len(l.accounts)}
		l.accounts[t.User] = a
	}
	a.weight = uint64(max(1, t.Credits))
	return a
}

// settle enters what was spent until now.
func (l *ledger) settle(a *account) {
	a.spent, a.since = l.spent(a), l.now
}

func (l *ledger) spent(a *account) time.Duration {
	return a.spent + time.Duration(a.holds)*(l.now-a.since)
}

// compare says who goes first: negative if it is a.
func (l *ledger) compare(a, b *account) int {
	if a == b {
		return 0
	}
	return cmp.Or(perCredit(uint64(l.spent(a)), a.weight, uint64(l.spent(b)), b.weight), perCredit(a.holds, a.weight, b.holds, b.weight))
}

// perCredit compares x ÷ v with y ÷ w.
func perCredit(x, v, y, w uint64) int {
	xHigh, xLow := bits.Mul64(x, w)
	yHigh, yLow := bits.Mul64(y, v)
	return cmp.Or(cmp.Compare(xHigh, yHigh), cmp.Compare(xLow, yLow))
}

// Spend says the time to the calls that have none of their own, so that what users spend counts until now.
func (e *Engine) Spend(now time.Duration) {
	if l := e.queue.ledger; l != nil && now > l.now {
		l.now = now
		e.settled = false // because the order may be another
	}
}

// Before compares the users of two jobs, of which the engine need not know: negative if the first goes first. It is 0
// under an order without credits.
func (e *Engine) Before(t, u *schedulers.Terms) int {
	l := e.queue.ledger
	if l == nil {
		return 0
	}
	return l.compare(l.of(t), l.of(u))
}

// pay says for how many devices h's user pays from now on.
func (e *Engine) pay(h *holding, devices int) {
	l := e.queue.ledger
	if l == nil || h.pays == devices {
		return
	}
	a := l.of(h.task.Terms)
	l.settle(a)
	a.holds += uint64(devices - h.pays)
	h.pays = devices
}
