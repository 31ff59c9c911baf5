package jobspec

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"berth/internal/hclconf"
	"berth/structs"
)

// Locate adds the position in the file to each fault of CSIVolume.Validate, also to those from a server. The
// position is that of the argument in the fault, or else that of the innermost block in its path. Locate does
// not change errors of other kinds and lines without a path.
func Locate(filename string, src []byte, err error) error {
	body, diags := hclconf.Parse(filename, src)
	if diags.HasErrors() {
		return err
	}
	return locator{}.locate(body, err)
}

// Locate adds the position in the file to each fault of Job.Validate, as the function of this name.
func (f *JobFile) Locate(err error) error {
	return locator{f.ctx}.locate(f.body, err)
}

// locator finds positions. Its context evaluates the arguments that name a block.
type locator struct{ ctx *hcl.EvalContext }

func (l locator) locate(body hcl.Body, err error) error {
	if !structs.IsKind(err, structs.KindInvalid) {
		return err
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		if at := l.locateFault(body, line); at.Filename != "" {
			lines[i] = fmt.Sprintf("%s:%d,%d: %s",
				at.Filename, at.Start.Line, at.Start.Column, line)
		}
	}
	return structs.Invalidf("%s", strings.Join(lines, "\n"))
}

// step matches one step of a fault's path: a block with its label or its number, or an argument.
var step = regexp.MustCompile(`^([a-z_]+)(?: ("(?:[^"\\]|\\.)*")| (\d+))?: `)

// labelled has the blocks with a label.
var labelled = map[string]bool{
	"job":    true,
	"group":  true,
	"task":   true,
	"volume": true,
	"device": true,
	"port":   true,
}

// locateFault returns the range that a fault names, or an empty one if the fault has no path. Of an argument
// it is the value, or the name if no such argument is allowed.
func (l locator) locateFault(body hcl.Body, line string) (at hcl.Range) {
	for depth := 0; ; depth++ {
		m := step.FindStringSubmatch(line)
		if m == nil {
			break
		}
		if depth == 0 {
			at = body.MissingItemRange()
		}
		rest := line[len(m[0]):]
		if depth == 0 && m[1] == "volume" { // a volume file is the body of its volume
			line = rest
			continue
		}
		block := l.findBlock(body, m[1], m[2], m[3])
		if block == nil {
			break
		}
		body = block.Body
		at = block.DefRange
		line = rest
	}
	if at.Filename == "" {
		return at
	}
	word, rest, _ := strings.Cut(line, " ")
	word = strings.TrimRight(word, ":;,")
	a := findArgument(body, word)
	switch {
	case a == nil:
		return at
	case strings.HasPrefix(rest, structs.UnknownField):
		return a.NameRange
	}
	return a.Expr.Range()
}

// findBlock finds a block by its label, its number or the argument that names it. It also returns the only
// block of its kind.
func (l locator) findBlock(body hcl.Body, kind, quoted, number string) *hcl.Block {
	header := hcl.BlockHeaderSchema{Type: kind}
	if labelled[kind] {
		header.LabelNames = []string{"name"}
	}
	content, _, _ := body.PartialContent(&hcl.BodySchema{
		Blocks: []hcl.BlockHeaderSchema{header},
	})
	if content == nil {
		return nil
	}
	n, err := strconv.Atoi(number)
	if err == nil &&
		n >= 1 &&
		n <= len(content.Blocks) {
		return content.Blocks[n-1]
	}
	name, _ := strconv.Unquote(quoted)
	for _, b := range content.Blocks {
		if quoted == "" ||
			len(content.Blocks) == 1 ||
			len(b.Labels) > 0 && b.Labels[0] == name ||
			l.textOf(b.Body, "volume") == name {
			return b
		}
	}
	return nil
}

// findArgument returns an argument of a body, or nil.
func findArgument(body hcl.Body, name string) *hcl.Attribute {
	content, _, _ := body.PartialContent(&hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: name}},
	})
	if content == nil {
		return nil
	}
	return content.Attributes[name]
}

// textOf returns the value of an argument that is a string, or "".
func (l locator) textOf(body hcl.Body, name string) string {
	a := findArgument(body, name)
	if a == nil {
		return ""
	}
	v, diags := a.Expr.Value(l.ctx)
	if diags.HasErrors() ||
		v.IsNull() ||
		!v.IsKnown() ||
		v.Type() != cty.String {
		return ""
	}
	return v.AsString()
}
