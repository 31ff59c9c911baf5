package fsm

import (
	"encoding/binary"
	"fmt"
)

// A batch is one log entry that carries many proposals. Under load they share the cost of an entry for Raft,
// its log and every follower. Each proposal is atomic and has its own result, like an entry of its own. All
// proposals have the index of the entry. No reader sees the state between two of them.
//
// The payload has, for each proposal, its length (a varint of encoding/binary) and the bytes of its Encode.

// The bounds of a batch for proposers. Apply does not check them, so a later version may change them.
const (
	MostInBatch  = 256
	BytesInBatch = 1 << 20
)

type batchCommand struct{ *CommandInfo }

// Answers has the result of FSM.Apply for each entry of a batch.
type Answers []any

// Encode writes a log entry that carries the entries.
func (c batchCommand) Encode(entries [][]byte) []byte {
	size := 1
	for _, e := range entries {
		size += binary.MaxVarintLen32 + len(e)
	}
	b := make([]byte, 0, size)
	b = append(b, c.ID)
	for _, e := range entries {
		b = binary.AppendUvarint(b, uint64(len(e)))
		b = append(b, e...)
	}
	return b
}

// entries splits the payload of a batch.
func (batchCommand) entries(payload []byte) ([][]byte, error) {
	var out [][]byte
	for len(payload) > 0 {
		length, n := binary.Uvarint(payload)
		if n <= 0 || length == 0 ||
			length > uint64(len(payload)-n) {
			return nil, fmt.Errorf("reading the payload of Batch: the length of entry %d is damaged",
				len(out))
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
