package structs

import "fmt"

// Sealed is a value that is encrypted with a root key of the cluster (see internal/keyring). Rows and
// entries of the log have a secret in this form alone. In texts it is [redacted] and in JSON null.
type Sealed struct {
	KeyID string // of the root key
	Data  []byte // nonce, ciphertext and tag of AES-256 in GCM
}

// String never shows the value.
func (s Sealed) String() string { return Redacted }

// Format covers every verb of fmt.
func (s Sealed) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte(Redacted))
}

// MarshalJSON writes null.
func (s Sealed) MarshalJSON() ([]byte, error) {
	return []byte("null"), nil
}

// UnmarshalJSON ignores its input: nobody outside of the servers has sealed values.
func (s *Sealed) UnmarshalJSON([]byte) error { return nil }
