package fsm

import (
	"strconv"

	"berth/internal/codec"
	"berth/structs/cluster"
)

// Part is a command in a log entry, without its payload.
type Part struct {
	Name  string
	Bytes int // of its payload
}

// Parts names the commands of a log entry, several for a batch. It does not read their payloads, which may
// have secrets.
func Parts(entry []byte) (parts []Part) {
	if len(entry) == 0 {
		return nil
	}
	if entry[0] == Batch.ID {
		entries, _ := Batch.entries(entry[1:]) // none of a damaged batch
		for _, e := range entries {
			parts = append(parts, partOf(e))
		}
	}
	if len(parts) > 0 {
		return parts
	}
	return []Part{partOf(entry)}
}

func partOf(entry []byte) Part {
	command := CommandOf(entry)
	name := command.Name
	if command == unknown {
		name = "command " + strconv.Itoa(int(entry[0])) // of a newer version
	}
	return Part{Name: name, Bytes: len(entry) - 1}
}

// ClusterTimeOf returns the cluster time that a log entry sets, nil if it sets none.
func ClusterTimeOf(entry []byte) *cluster.ClusterTime {
	if len(entry) == 0 {
		return nil
	}
	switch entry[0] {
	case ClusterTimeSet.ID:
		p := new(cluster.ClusterTimeRequest)
		if codec.Decode(entry[1:], p) == nil {
			return &p.Clock
		}
	case Batch.ID:
		entries, _ := Batch.entries(entry[1:]) // none of a damaged batch
		for _, e := range entries {
			if len(e) > 0 && e[0] == ClusterTimeSet.ID {
				return ClusterTimeOf(e)
			}
		}
	}
	return nil
}
