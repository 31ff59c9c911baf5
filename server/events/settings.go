package events

import (
	"fmt"

	"berth/internal/conf"
)

// Settings bound the memory of a Ring. They are in the server block.
type Settings struct {
	EventBroker bool          `hcl:"enable_event_broker"`
	EventBuffer int           `hcl:"event_buffer_size"`  // changed rows that stay
	EventBytes  conf.ByteSize `hcl:"event_buffer_bytes"` // of payloads, and of log entries without payloads yet
}

// The least and the most of the settings.
const (
	minEvents = 1
	maxEvents = 1_000_000
	minBytes  = 1 << 20
	maxBytes  = 16 << 30
)

// DefaultSettings returns the settings of a server that does not name them.
func DefaultSettings() Settings {
	return Settings{
		EventBroker: true,
		EventBuffer: 10_000,
		EventBytes:  64 << 20,
	}
}

// Validate returns the first fault.
func (s Settings) Validate() error {
	if s.EventBuffer < minEvents || s.EventBuffer > maxEvents {
		return fmt.Errorf("server: event_buffer_size is %d; expected %d to %d, or enable_event_broker = false",
			s.EventBuffer, minEvents, maxEvents)
	}
	if s.EventBytes < minBytes || s.EventBytes > maxBytes {
		return fmt.Errorf("server: event_buffer_bytes is %d; expected %d to %d", s.EventBytes, minBytes, maxBytes)
	}
	return nil
}
