package perfetto

import (
	"io"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers and values of Perfetto's schema (protos/perfetto/trace), by message.
const (
	tracePacket = 1

	packetTimestamp       = 8 // ns
	packetSequence        = 10
	packetEvent           = 11
	packetInterned        = 12
	packetFlags           = 13
	packetTrackDescriptor = 60

	flagCleared  = 1 // nothing that was interned before counts
	flagInterned = 2 // the packet refers to interned data

	trackUUID            = 1
	trackName            = 2
	trackProcess         = 3
	trackParent          = 5
	trackCounter         = 8
	trackChildOrdering   = 11
	trackRank            = 12
	trackProcessOrdering = 19

	childrenByRank  = 3
	processesByRank = 1

	processPID  = 1
	processName = 6

	counterUnit     = 3
	counterUnitName = 6
	unitCount       = 2
	unitBytes       = 3

	eventArgs         = 4
	eventType         = 9
	eventNameIID      = 10
	eventTrack        = 11
	eventCount        = 30
	eventDoubleCount  = 44
	eventFlow         = 47
	eventEndOfFlow    = 48
	typeSliceBegin    = 1
	typeSliceEnd      = 2
	typeInstant       = 3
	typeCounter       = 4
	argNameIID        = 1
	argInt            = 4
	argDouble         = 5
	argString         = 6
	argStringIID      = 17
	internedNames     = 2
	internedArgNames  = 3
	internedArgValues = 29
	internedIID       = 1
	internedText      = 2
)

// sequence is the number of the one writer of packets.
const sequence = 1

// packets writes the packets of a trace. The first error stays in err, and nothing is written
// after it. Texts that come again and again are written once, and have numbers from then on.
type packets struct {
	w      io.Writer
	origin int64 // timestamp of the batch's arrival, in ns
	err    error

	begun  bool
	tracks uint64 // so far
	pids   uint64
	flows  uint64

	names, keys, texts interned

	// Buffers that are used again.
	event, field, fresh, packet []byte
}

// interned has the numbers of texts, from 1.
type interned map[string]uint64

// track is the UUID of a track; 0 is the root of all.
type track uint64

// unit of a counter's values: one of Perfetto's, or a name.
type unit struct {
	known uint64 // in Perfetto's list
	name  string
}

var (
	fraction = unit{name: "fraction"}
	joules   = unit{name: "J"}
	watts    = unit{name: "W"}
	bytes    = unit{known: unitBytes}
	count    = unit{known: unitCount}
)

func newPackets(w io.Writer, origin int64) *packets {
	p := &packets{w: w, origin: origin, names: interned{}, keys: interned{}, texts: interned{}}
	p.describe(0, "", 0, func(b []byte) []byte { return number(b, trackProcessOrdering, processesByRank) })
	return p
}

// process adds a process, which is a group of tracks. Processes are shown in the order of these
// calls.
func (p *packets) process(name string) track {
	p.tracks++
	p.pids++
	p.describe(track(p.tracks), name, p.pids, func(b []byte) []byte {
		var process []byte
		process = number(process, processPID, p.pids)
		process = text(process, processName, name)
		b = message(b, trackProcess, process)
		return number(b, trackChildOrdering, childrenByRank)
	})
	return track(p.tracks)
}

// slices adds a track for slices and instants. Tracks of one parent are shown in the order of
// their ranks.
func (p *packets) slices(parent track, name string, rank int) track {
	p.tracks++
	p.describe(track(p.tracks), name, uint64(rank), func(b []byte) []byte { return number(b, trackParent, uint64(parent)) })
	return track(p.tracks)
}

// counter adds a track for values of a unit.
func (p *packets) counter(parent track, name string, rank int, u unit) track {
	p.tracks++
	p.describe(track(p.tracks), name, uint64(rank), func(b []byte) []byte {
		var c []byte
		if u.known > 0 {
			c = number(c, counterUnit, u.known)
		} else {
			c = text(c, counterUnitName, u.name)
		}
		return message(number(b, trackParent, uint64(parent)), trackCounter, c)
	})
	return track(p.tracks)
}

// describe writes the packet that makes a track known.
func (p *packets) describe(t track, name string, rank uint64, rest func([]byte) []byte) {
	b := number(nil, trackUUID, uint64(t))
	if name != "" {
		b = text(b, trackName, name)
	}
	b = rest(number(b, trackRank, rank))
	p.write(message(nil, packetTrackDescriptor, b))
}

// arg is one argument of a slice or an instant. The zero value is none.
type arg struct {
	key    string
	field  protowire.Number // of the value: argInt, argDouble, argString or argStringIID
	bits   uint64
	string string
}

func whole(key string, v int64) arg { return arg{key: key, field: argInt, bits: uint64(v)} }

func quantity(key string, v float64) arg {
	return arg{key: key, field: argDouble, bits: math.Float64bits(v)}
}

// words is a text; an empty one is none.
func words(key, v string) arg {
	if v == "" {
		return arg{}
	}
	return arg{key: key, field: argString, string: v}
}

// common is words that many slices have.
func common(key, v string) arg {
	a := words(key, v)
	if a.field != 0 {
		a.field = argStringIID
	}
	return a
}

// flow is the number of an arrow between two slices; 0: none.
type flow uint64

func (p *packets) newFlow() flow {
	p.flows++
	return flow(p.flows)
}

// slice is an interval on a track, in ns since the batch's arrival.
type slice struct {
	track    track
	name     string
	from, to int64
	begins   flow
	ends     flow
}

// slice writes both ends of a slice.
func (p *packets) slice(s slice, args ...arg) {
	p.begin(typeSliceBegin, s.track, s.name, args)
	if s.begins != 0 {
		p.event = fixed(p.event, eventFlow, uint64(s.begins))
	}
	if s.ends != 0 {
		p.event = fixed(p.event, eventEndOfFlow, uint64(s.ends))
	}
	p.end(s.from)
	p.begin(typeSliceEnd, s.track, "", nil)
	p.end(max(s.from, s.to))
}

// instant writes what has no length.
func (p *packets) instant(t track, name string, at int64, args ...arg) {
	p.begin(typeInstant, t, name, args)
	p.end(at)
}

// value writes the value that a counter has from a time on.
func (p *packets) value(t track, at int64, value float64) {
	p.begin(typeCounter, t, "", nil)
	if whole := int64(value); float64(whole) == value {
		p.event = number(p.event, eventCount, uint64(whole))
	} else {
		p.event = fixed(p.event, eventDoubleCount, math.Float64bits(value))
	}
	p.end(at)
}

// begin makes an event, to which fields may be added before its end.
func (p *packets) begin(kind uint64, t track, name string, args []arg) {
	p.fresh = p.fresh[:0]
	p.event = number(p.event[:0], eventType, kind)
	p.event = number(p.event, eventTrack, uint64(t))
	if name != "" {
		p.event = number(p.event, eventNameIID, p.intern(p.names, internedNames, name))
	}
	for _, a := range args {
		p.arg(a)
	}
}

func (p *packets) arg(a arg) {
	if a.field == 0 {
		return
	}
	f := number(p.field[:0], argNameIID, p.intern(p.keys, internedArgNames, a.key))
	switch a.field {
	case argInt:
		f = number(f, argInt, a.bits)
	case argDouble:
		f = fixed(f, argDouble, a.bits)
	case argString:
		f = text(f, argString, a.string)
	case argStringIID:
		f = number(f, argStringIID, p.intern(p.texts, internedArgValues, a.string))
	}
	p.field = f
	p.event = message(p.event, eventArgs, f)
}

// end writes the event.
func (p *packets) end(at int64) {
	b := number(p.packet[:0], packetTimestamp, uint64(p.origin+at))
	b = message(b, packetEvent, p.event)
	if len(p.fresh) > 0 {
		b = message(b, packetInterned, p.fresh)
	}
	p.packet = b
	p.write(b)
}

// intern is the number of a text. A text that is new goes into the event's packet.
func (p *packets) intern(known interned, field protowire.Number, s string) uint64 {
	iid, found := known[s]
	if !found {
		iid = uint64(len(known) + 1)
		known[s] = iid
		p.fresh = message(p.fresh, field, text(number(nil, internedIID, iid), internedText, s))
	}
	return iid
}

// write writes a packet's fields, with those that every packet has.
func (p *packets) write(fields []byte) {
	if p.err != nil {
		return
	}
	flags := uint64(flagInterned)
	if !p.begun {
		flags, p.begun = flagCleared, true
	}
	fields = number(fields, packetSequence, sequence)
	fields = number(fields, packetFlags, flags)
	p.packet = fields
	var head [16]byte
	if _, p.err = p.w.Write(protowire.AppendVarint(protowire.AppendTag(head[:0], tracePacket, protowire.BytesType), uint64(len(fields)))); p.err == nil {
		_, p.err = p.w.Write(fields)
	}
}

func number(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func fixed(b []byte, field protowire.Number, bits uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), bits)
}

func text(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), strings.ToValidUTF8(s, "\uFFFD"))
}

func message(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}
