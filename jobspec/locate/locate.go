// Package locate finds the places of faults in job and volume files, and in the JSON of the API. The text of
// a fault names the blocks around it.
package locate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"berth/internal/conf"
	"berth/structs"
	"berth/structs/nodecalls"
)

// stepForm matches the first step of a fault's path.
var stepForm = regexp.MustCompile(`^([a-z_]+)(?: ("(?:[^"\\]|\\.)*")| (\d+))?: `)

// step is one step of a fault's path: a block with its label or its number, or an argument.
type step struct {
	name     string
	quoted   string // the label, "" for none
	number   int    // 1 for none
	numbered bool
	rest     string // the text of the fault after the step
}

// firstStep returns the step with which the text of a fault begins.
func firstStep(text string) (s step, found bool) {
	m := stepForm.FindStringSubmatch(text)
	if m == nil {
		return step{}, false
	}
	s = step{
		name:     m[1],
		quoted:   m[2],
		number:   1,
		numbered: m[3] != "",
		rest:     text[len(m[0]):],
	}
	if s.numbered {
		s.number, _ = strconv.Atoi(m[3]) // it is the largest int for a number that is too large
	}
	return s, true
}

// label returns the label of the step, "" for none.
func (s *step) label() string {
	label, _ := strconv.Unquote(s.quoted)
	return label
}

// Locator finds the places of faults in a file.
type Locator struct {
	Body    hcl.Body
	Spec    string // the kind of the specification, which is the body or a block of it
	Unset   *conf.Unset
	Spoiled map[hcl.Range]bool // the blocks, by the ranges of their kinds, of which the job has not all parts
}

// Locate adds the position in the file to each fault of the specification's Validate, also to those from a
// server. The place is the argument in the fault, or else the innermost block in its path.
// Locate drops faults that may be due to parts that the specification lacks because of faults of the file. It
// does not change errors of other kinds and lines without a path.
func (l Locator) Locate(err error) error {
	return conf.Place(err, func(text string) (at *hcl.Range, counts bool) {
		w := walk{
			Locator: l,
			rest:    text,
		}
		w.followPath()
		// Without a path nothing tells where the fault is, but it counts.
		if w.at.Filename == "" {
			return nil, true
		}
		w.findWord()
		return &w.at, !w.due
	})
}

// dependsOn has the blocks and arguments whose absence, wherever it is, causes faults of blocks of a kind.
var dependsOn = map[string]struct{ blocks, arguments []string }{
	"config":       {blocks: []string{"network", "port"}},
	"preferred":    {blocks: []string{"topology"}, arguments: []string{"segments"}},
	"service":      {blocks: []string{"network", "port", "task"}},
	"volume_mount": {blocks: []string{"volume"}},
}

// inherited has the kinds of blocks that a group or a task without one has from the block around it.
var inherited = map[string]bool{
	"migrate":    true,
	"reschedule": true,
	"restart":    true,
	"update":     true,
}

// walk is the way to the place of a fault.
type walk struct {
	Locator
	rest   string     // the text after the steps of the way
	bodies []hcl.Body // from the outermost to the innermost block
	kind   string     // of the innermost block

	argument *hcl.Attribute // the map at the end of the path, if it is an argument
	at       hcl.Range
	due      bool // the fault may be due to a part that is unset
}

// followPath walks along the path of the fault. at is empty if it has none.
func (w *walk) followPath() {
	w.bodies = []hcl.Body{w.Body}
	for depth := 0; ; depth++ {
		s, found := firstStep(w.rest)
		if !found {
			return
		}

		if depth == 0 {
			w.at = w.Body.MissingItemRange()
		}

		isOutermost := depth == 0 && s.name == w.Spec &&
			len(blocksNamed(w.Body, s.name)) == 0 // the body belongs to the specification
		if isOutermost {
			w.kind = s.name
		}

		if !isOutermost && !standsAlone(w.inner(), s) && !w.enter(s) {
			w.enterMap(s)
			return
		}

		w.rest = s.rest
	}
}

// inner returns the body of the innermost block.
func (w *walk) inner() hcl.Body { return w.bodies[len(w.bodies)-1] }

// enter enters the block of a step. It returns false if there is none.
func (w *walk) enter(s step) bool {
	// A block that was lost anywhere may be the one that this one needs.
	needed := dependsOn[s.name]
	w.due = w.due || slices.ContainsFunc(needed.blocks, w.Unset.HasBlocks) ||
		slices.ContainsFunc(needed.arguments, w.Unset.HasArguments)
	block := blockAt(w.inner(), s)
	for i := len(w.bodies) - 2; i >= 0 && block == nil && inherited[s.name]; i-- {
		block = blockAt(w.bodies[i], s)
	}

	if w.Unset.Has(w.inner(), s.name) && (block == nil || s.numbered) { // also the numbers of others change
		w.due = true
	}

	if block == nil {
		return false
	}

	w.due = w.due || w.Spoiled[block.TypeRange]
	w.bodies = append(w.bodies, block.Body)
	w.kind = s.name
	w.at = block.DefRange
	return true
}

// enterMap enters the argument of a step, if its value is a map.
func (w *walk) enterMap(s step) {
	a := findArgument(w.inner(), s.name)
	if a == nil || w.isUnknown(s.name) {
		return
	}
	_, diags := hcl.ExprMap(a.Expr)
	if !diags.HasErrors() {
		w.argument = a
		w.rest = s.rest
	}
}

// words matches the names of arguments and blocks in the text of a fault.
var words = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*`)

// findWord moves the place to the argument or block that the fault names first. Of an argument that is the
// value, or the name if no such argument is allowed.
func (w *walk) findWord() {
	name := words.FindString(w.rest)
	if !strings.HasPrefix(w.rest, name) {
		name = ""
	}

	if w.argument != nil {
		w.due = w.due || w.Unset.Has(w.inner(), w.argument.Name)
		w.at = entryOf(w.argument, name, w.isUnknown(name))
		return
	}

	body := w.inner()
	named := name != "" && w.moveTo(name)
	switch {
	case name != "" && w.Unset.Has(body, name):
		w.due = true
	case !named && w.Unset.In(body) && (!w.isStructural() || w.Unset.HasBlocksIn(body)):
		w.due = true // the fault is one of the whole block
	}

	for _, other := range words.FindAllString(w.rest, -1) {
		w.due = w.due || w.means(other)
	}
}

// isStructural reports whether the faults of the innermost block as a whole depend on its blocks, and not on
// its arguments.
func (w *walk) isStructural() bool {
	return w.kind == w.Spec || w.kind == "group" || w.kind == "task"
}

// moveTo moves the place to an argument or the first block with a name.
func (w *walk) moveTo(name string) bool {
	if a := findArgument(w.inner(), name); a != nil {
		w.at = a.Expr.Range()
		if w.isUnknown(name) {
			w.at = a.NameRange
		}
		return true
	}
	blocks := blocksNamed(w.inner(), name)
	// Only in a config does a fault name a block as it names an argument: other blocks are steps of the path.
	if len(blocks) == 0 || w.kind != "config" {
		return false
	}
	w.at = blocks[0].DefRange
	return true
}

// isUnknown reports whether the fault is that no argument of the name is allowed.
func (w *walk) isUnknown(name string) bool {
	rest := strings.TrimLeft(w.rest[len(name):], ":;, ")
	return strings.HasPrefix(rest, nodecalls.UnknownField)
}

// entryOf returns the range of the value, or the key, of an entry of a map. Without such an entry
// A key may be any expression, and only a constant can be compared.
// it returns the range of the map.
func entryOf(a *hcl.Attribute, key string, ofKey bool) hcl.Range {
	entries, _ := hcl.ExprMap(a.Expr)
	for _, e := range entries {
		name, diags := e.Key.Value(nil)
		isKey := !diags.HasErrors() && name.RawEquals(cty.StringVal(key))
		switch {
		case isKey && ofKey:
			return e.Key.Range()
		case isKey:
			return e.Value.Range()
		}
	}
	return a.Expr.Range()
}

// means reports whether a word of a fault is the name of an unset argument. The innermost block in
// which it has a meaning decides.
func (w *walk) means(word string) bool {
	for _, body := range slices.Backward(w.bodies) {
		if w.Unset.HasArgument(body, word) {
			return true
		}
		if findArgument(body, word) != nil {
			return false
		}
	}
	return false
}

// standsAlone reports whether a step is the group of a task that stands in the job without a group, and
// that has its name.
func standsAlone(body hcl.Body, s step) bool {
	if s.name != "group" {
		return false
	}
	name := s.label()
	isIts := func(b *hcl.Block) bool { return hasLabel(b, name) }
	return !slices.ContainsFunc(blocksNamed(body, "group"), isIts) &&
		slices.ContainsFunc(blocksNamed(body, "task"), isIts)
}

// blockAt finds the block of a step by its label or its number. The ID of a job may differ from its label: a
// file has one job.
func blockAt(body hcl.Body, s step) *hcl.Block {
	blocks := blocksNamed(body, s.name)
	n := s.number
	if s.quoted != "" && s.name != "job" {
		name := s.label()
		n = 1 + slices.IndexFunc(blocks, func(b *hcl.Block) bool { return hasLabel(b, name) })
	}
	if n < 1 || n > len(blocks) {
		return nil
	}
	return blocks[n-1]
}

// hasLabel reports whether a block has the label that a fault shows, which cuts long ones.
func hasLabel(b *hcl.Block, shown string) bool {
	return len(b.Labels) > 0 && structs.Cut(b.Labels[0], structs.MaxQuoted) == shown
}

// blocksNamed returns the blocks of a kind in their order. In JSON it finds only blocks without labels.
func blocksNamed(body hcl.Body, kind string) (blocks hcl.Blocks) {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		content, _, _ := body.PartialContent(&hcl.BodySchema{
			Blocks: []hcl.BlockHeaderSchema{{Type: kind}},
		})
		return content.Blocks
	}
	for _, b := range native.Blocks {
		if b.Type == kind {
			blocks = append(blocks, b.AsHCLBlock())
		}
	}
	return blocks
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
