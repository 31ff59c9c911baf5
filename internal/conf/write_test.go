package conf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"berth/structs"
)

// writtenAt returns the text that Write writes for a fault at a byte of a source.
func writtenAt(t *testing.T, src string, at int) string {
	t.Helper()
	place := hcl.Pos{
		Line: 1 + strings.Count(src[:at], "\n"),
		Byte: at,
	}
	var out strings.Builder
	err := Write(&out, map[string][]byte{"a.hcl": []byte(src)}, hcl.Diagnostics{
		Fault(hcl.Range{Filename: "a.hcl", Start: place, End: place}, "bad"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWrite_ShowsTheLineWithACaret(t *testing.T) {
	const head = "Error: bad\n\n  on a.hcl line "
	long := strings.Repeat("x", 1000) + "HERE" + strings.Repeat("y", 1000)
	for name, c := range map[string]struct {
		src  string
		at   int
		want string
	}{
		"the first line":     {"a = 1\nb = 2\n", 4, "1:\n   1: a = 1\n          ^\n\n"},
		"another line":       {"a = 1\nb = 2\n", 6, "2:\n   2: b = 2\n      ^\n\n"},
		"the end of a line":  {"a = 1\nb\n", 5, "1:\n   1: a = 1\n           ^\n\n"},
		"an empty line":      {"a\n\nb", 2, "2:\n   2:  \n      ^\n\n"},
		"an empty file":      {"", 0, "1:\n   1:  \n      ^\n\n"},
		"the end of a file":  {"a = 1\n", 6, "2:\n   2:  \n      ^\n\n"},
		"wide characters":    {"a = \"é\" + 1", 9, "1:\n   1: a = \"é\" + 1\n              ^\n\n"},
		"control characters": {"\t\x1b[2Ja\u202e = 1\r\n", 5, "1:\n   1:   [2Ja  = 1\n           ^\n\n"},
		"a long line": {
			long,
			1000,
			"1:\n   1: " + strings.Repeat("x", 50) + "HERE" + strings.Repeat("y", 46) +
				"\n" + strings.Repeat(" ", 6+50) + "^\n\n",
		},
	} {
		if got := writtenAt(t, c.src, c.at); got != head+c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, head+c.want)
		}
	}
}

func TestWrite_ShowsNoValuesAndNoMissingFile(t *testing.T) {
	d := Fault(hcl.Range{Filename: "-var a", Start: hcl.InitialPos}, "bad")
	d.Detail = "The reason."
	d.Expression, _ = hclsyntax.ParseExpression([]byte("a"), "b", hcl.InitialPos)
	d.EvalContext = &hcl.EvalContext{
		Variables: map[string]cty.Value{"a": cty.StringVal("s3cret")},
	}
	var out strings.Builder
	err := Write(&out, nil, hcl.Diagnostics{d, Warning(hcl.Range{Filename: "b"}, "odd")})
	const want = "Error: -var a: bad\n\nThe reason.\n\nWarning: b: odd\n\n"
	if err != nil || out.String() != want {
		t.Errorf("got %q, %v, want %q", out.String(), err, want)
	}
	out.Reset()
	err = Write(&out, map[string][]byte{"-var a": []byte("a")}, hcl.Diagnostics{d})
	if err != nil || strings.Contains(out.String(), "s3cret") || !strings.Contains(out.String(), "line 1:") {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestWrite_IsBounded(t *testing.T) {
	var many hcl.Diagnostics
	for i := range structs.MaxFaults + 7 {
		many = append(many, Fault(hcl.Range{Filename: "a"}, "%d%s", i, strings.Repeat("x", 1<<20)))
	}
	var out strings.Builder
	err := Write(&out, nil, many)
	isWhole := strings.HasSuffix(out.String(), "\n\nand 7 more\n\n")
	if err != nil || out.Len() > 2*structs.MaxFaults*maxLine || !isWhole {
		t.Errorf("got %d bytes, %v", out.Len(), err)
	}
}

func TestFaults_KeepPlacesThroughWrapping(t *testing.T) {
	at := hcl.Range{Filename: "a.hcl", Start: hcl.InitialPos}
	placed := Error(hcl.Diagnostics{Fault(at, "one"), Warning(at, "odd"), Fault(at, "two"), Fault(at, "one")})
	if placed.Error() != "a.hcl:1,1: one\na.hcl:1,1: two" || !structs.IsKind(placed, structs.KindInvalid) {
		t.Fatalf("got %q", placed)
	}
	joined := structs.Invalidf("%w", errors.Join(placed, nil, errors.New("three\nfour")))
	found := Place(joined, func(text string) (*hcl.Range, bool) {
		return &hcl.Range{Filename: "b.hcl", Start: hcl.InitialPos}, text != "four"
	})
	if got := found.Error(); got != "a.hcl:1,1: one\na.hcl:1,1: two\nb.hcl:1,1: three" {
		t.Errorf("got %q", got)
	}
	none := Place(structs.Invalidf("four"), func(string) (*hcl.Range, bool) { return nil, false })
	if none != nil {
		t.Errorf("got %v, want no fault", none)
	}
	for i, d := range Faults(found) {
		if want := []string{"one", "two", "three"}[i]; d.Summary != want || d.Subject == nil {
			t.Errorf("got %q at %v, want %q", d.Summary, d.Subject, want)
		}
	}
}

func TestError_NamesABoundedNumberOfFaults(t *testing.T) {
	var many hcl.Diagnostics
	for i := range structs.MaxFaults + 7 {
		many = append(many, Fault(hcl.Range{Filename: "a", Start: hcl.InitialPos}, "%d", i))
	}
	lines := strings.Split(fmt.Sprint(Error(many)), "\n")
	if len(lines) != structs.MaxFaults+1 || lines[structs.MaxFaults] != "and 7 more" {
		t.Errorf("got %q", lines)
	}
}
