package access

import (
	"fmt"

	"berth/structs"
)

// Secret is a text that texts show as [redacted], so that no log and no error has it. JSON and msgpack have
// it as it is.
type Secret string

// Redacted stands for a stored secret in rows and answers. In a request it leaves the stored secret as it is.
const Redacted Secret = "redacted"

// String never shows the secret.
func (s Secret) String() string { return structs.Redacted }

// Format covers every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte(structs.Redacted))
}
