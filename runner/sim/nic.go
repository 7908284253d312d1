package sim

import "time"

// NIC is what connects a node with others. Messages that it sends share its rate, and so do those that it gets.
type NIC struct {
	BytesPerS float64
	LatencyS  float64 // of a message, whatever its size
}

// nics are by their names. All are estimated: Ethernet has 94 % of its rate, as TCP with frames of 1,500 bytes, and 50 us for a message;
// InfiniBand at its double data rate has 1.5 GB/s, and 2 us.
var nics = map[string]NIC{"1Gb": ethernet(1), "10Gb": ethernet(10), "25Gb": ethernet(25), "100Gb": ethernet(100), "ddr-ib": {1.5e9, 2e-6}}

const defaultNIC = "10Gb"

func ethernet(gigabits float64) NIC { return NIC{gigabits * 117e6, 50e-6} }

// nic is the kind's.
func (k *Kind) nic() NIC {
	if k.NIC == "" {
		return nics[defaultNIC]
	}
	return nics[k.NIC]
}

func (n NIC) latency() time.Duration { return time.Duration(n.LatencyS * 1e9) }

// carries is a message between processes of one node as it goes to another.
func (n NIC) carries(message *step) step {
	out := *message
	least := float64(message.Bytes) / n.BytesPerS
	noise := message.soloS / (float64(message.Bytes) / messageBytesPerS)
	out.on, out.soloS, out.demand = nic, (least+n.LatencyS)*noise, least/(least+n.LatencyS)
	return out
}
