package refdocs

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

// TestFAQ_HasTheExitCodes compares the rows of the exit codes with the table of errors.
func TestFAQ_HasTheExitCodes(t *testing.T) {
	doc := readDoc(t, "docs/faq.md")
	for _, k := range []structs.Kind{
		structs.KindInternal, structs.KindInvalid, structs.KindDenied, structs.KindNotFound, structs.KindConflict,
		structs.KindPrecondition, structs.KindUnavailable, structs.KindTimeout,
	} {
		row := fmt.Sprintf("\n| `%s` | %d | %d | ", k, k.ExitCode(), k.HTTPStatus())
		if !strings.Contains(doc, row) {
			t.Errorf("docs/faq.md has no row %q", row)
		}
	}
}
