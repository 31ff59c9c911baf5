package fsm

import (
	"encoding/binary"
	"fmt"
)

// A batch is one log entry of many that were proposed independently: under load they share what an entry
// costs Raft, its log and every follower. Each is all-or-nothing by itself and has its own answer, as if it were
// an entry alone; all have the entry's index, and nobody ever sees the state between two of them.
//
// Its payload is each entry as Encode writes it, after its length (a varint of encoding/binary).

// The bounds of what proposers put into a batch. Who applies one does not hold it to them, so that they can be
// changed.
const (
	MostInBatch  = 256
	BytesInBatch = 1 << 20
)

type batchCommand struct{ *CommandInfo }

// Answers are those of a batch: one for each of its entries, as FSM.Apply gives them.
type Answers []any

// Packable reports whether an entry may share a batch with others.
func Packable(entry []byte) bool {
	c := find(entry)
	return c != nil && c.Batched
}

// Encode makes one entry of many.
func (c batchCommand) Encode(entries [][]byte) []byte {
	size := 1
	for _, e := range entries {
		size += binary.MaxVarintLen32 + len(e)
	}
	b := append(make([]byte, 0, size), c.ID)
	for _, e := range entries {
		b = append(binary.AppendUvarint(b, uint64(len(e))), e...)
	}
	return b
}

// entries takes the payload of a batch apart.
func (batchCommand) entries(payload []byte) ([][]byte, error) {
	var out [][]byte
	for len(payload) > 0 {
		length, n := binary.Uvarint(payload)
		if n <= 0 || length == 0 || length > uint64(len(payload)-n) {
			return nil, fmt.Errorf("reading the payload of Batch: the length of entry %d is damaged", len(out))
		}
		end := n + int(length)
		out = append(out, payload[n:end:end])
		payload = payload[end:]
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("reading the payload of Batch: it is empty")
	}
	return out, nil
}
