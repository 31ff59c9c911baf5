package disk

import (
	"time"

	"berth/internal/conf"
	"berth/structs"
)

// Settings are the agent's `client { moved_data {} }`: the bounds of the data that allocations take over from
// other nodes.
type Settings struct {
	// MaxSize bounds the data that one allocation of this node takes over.
	MaxSize conf.ByteSize `hcl:"max_size"`
	// MinFree stays free on the file system of the allocations while data comes.
	MinFree conf.ByteSize `hcl:"min_free"`
	// Keep bounds the time after the end of an allocation for which this node keeps its data for a
	// replacement on another node.
	Keep time.Duration `hcl:"keep"`
}

// DefaultSettings returns the bounds of an agent that sets none.
func DefaultSettings() Settings {
	return Settings{
		MaxSize: 100_000_000_000,
		MinFree: 500_000_000,
		Keep:    24 * time.Hour,
	}
}

const maxBytes = 1 << 60 // of a setting

// Validate names every fault.
func (s Settings) Validate() error {
	var faults []error
	within := func(name string, n, least conf.ByteSize) {
		if n < least || n > maxBytes {
			faults = append(faults, structs.Invalidf(
				"client.moved_data.%s: %d is not within %d to %d bytes", name, n, least, int64(maxBytes)))
		}
	}
	within("max_size", s.MaxSize, 1)
	within("min_free", s.MinFree, 0)
	if s.Keep < 0 || s.Keep > structs.MaxInterval {
		faults = append(faults, structs.Invalidf("client.moved_data.keep: %s is not within 0 to %s",
			s.Keep, structs.MaxInterval))
	}
	return structs.InvalidAll(faults)
}
