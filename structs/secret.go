package structs

import "fmt"

// Secret is a text that no log, event or answer shows. msgpack has it between servers and agents. In JSON it
// is null; JSON input is read.
type Secret string

// String never shows the text.
func (s Secret) String() string { return Redacted }

// Format covers every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// MarshalJSON writes null.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte("null"), nil }
