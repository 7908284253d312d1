package sim

import "time"

// NIC is what connects a node with others. Messages that it sends share its rate, and so do those that it gets.
type NIC struct {
	BytesPerS float64
	LatencyS  float64 // of a message, whatever its size
}

// ethernet10 is estimated: 94 % of 10 Gb/s, as TCP reaches with frames of 1,500 bytes, and 50 us for a message.
var ethernet10 = NIC{1.17e9, 50e-6}

func (n NIC) latency() time.Duration { return time.Duration(n.LatencyS * 1e9) }

// carries is a message between processes of one node as it goes to another.
func (n NIC) carries(message *step) step {
	out := *message
	least := float64(message.Bytes) / n.BytesPerS
	noise := message.soloS / (float64(message.Bytes) / messageBytesPerS)
	out.on, out.soloS, out.demand = nic, (least+n.LatencyS)*noise, least/(least+n.LatencyS)
	return out
}
