package structs

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Secrets are key/value pairs for a CSI plugin (CSI spec, "Secrets Requirements"). msgpack has them between
// servers and agents. In texts they are [redacted] and in JSON null, so that no log, event or API answer
// shows them. JSON input is read, so a request can register a volume with secrets. A volume that a client
// reads, edits and puts back without secrets keeps the stored ones.
type Secrets map[string]string

// Redacted replaces secrets in texts.
const Redacted = "[redacted]"

// String never shows a value.
func (s Secrets) String() string { return Redacted }

// Format covers every verb of fmt.
func (s Secrets) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte(Redacted))
}

// MarshalJSON writes null.
func (s Secrets) MarshalJSON() ([]byte, error) {
	return []byte("null"), nil
}

// UnmarshalJSON reads a plain object of strings.
func (s *Secrets) UnmarshalJSON(b []byte) error {
	var m map[string]string
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	*s = m
	return nil
}

// Copy returns a copy; nil stays nil.
func (s Secrets) Copy() Secrets { return maps.Clone(s) }
