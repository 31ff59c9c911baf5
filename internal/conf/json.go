package conf

import (
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// JSONFile is a file in JSON in the syntax of HCL.
type JSONFile struct {
	Body *hclsyntax.Body

	// Text is the file and after it the decoded text of its strings with expressions. The bytes in the ranges
	// within such an expression count from the start of Text.
	Text []byte

	// Faults has the faults of strings that are no templates. Their values are unknown.
	Faults hcl.Diagnostics

	filename string
	size     int // of the file
	strings  []jsonString
}

// jsonString is a string with expressions.
type jsonString struct {
	at      hcl.Range
	start   int  // in Text
	escaped bool // its text has another length than in the file
}

// inFile returns the range in the file of a range within the text of the string.
func (s *jsonString) inFile(at hcl.Range) *hcl.Range {
	if s.escaped {
		// A string without escapes has its text in the file as it is, behind the quote.
		return &s.at
	}
	moved := s.at.Start.Byte + len(`"`) - s.start
	at.Start.Byte += moved
	at.End.Byte += moved
	return &at
}

// JSONForm is the form of a file in JSON.
type JSONForm struct {
	Shape any                 // a struct, whose tags tell blocks from arguments
	Plain func([]byte) []byte // prepares a template for the parser, and keeps its length
}

// ParseValue reads a value in JSON, whose strings are constants.
func ParseValue(filename string, src []byte) (hcl.Expression, hcl.Diagnostics) {
	// The parser recurses, so the text is measured first.
	at, reason := whyUnreadable(filename, src, true)
	if reason != "" {
		return nil, hcl.Diagnostics{Fault(at, "%s", reason)}
	}
	return json.ParseExpression(src, filename)
}

// ParseJSON reads a file in JSON into the syntax of HCL. Its strings are templates, and a block may have
// dynamic blocks. An argument with the tag syntax has the text of an expression.
func ParseJSON(filename string, src []byte, form JSONForm) (*JSONFile, hcl.Diagnostics) {
	root, diags := ParseValue(filename, src)
	if diags.HasErrors() {
		return nil, diags
	}

	r := jsonReader{
		file: &JSONFile{
			Text:     slices.Clone(src),
			filename: filename,
			size:     len(src),
		},
		counts: tokenCounts{},
		plain:  form.Plain,
	}

	r.file.Body = r.body(root, specOf(reflect.TypeOf(form.Shape)))
	r.file.Locate(r.diags)
	// The ranges of faults are moved once, after all: before, they count from the start of Text.
	r.file.Locate(r.file.Faults)
	if r.diags.HasErrors() {
		return nil, append(r.diags, r.file.Faults...)
	}

	return r.file, r.diags
}

// Locate moves the ranges of diagnostics within Text to the file. HCL has counted the columns of a string
// without escapes. Within another string it does not know them, so the range becomes the whole string.
func (f *JSONFile) Locate(diags hcl.Diagnostics) {
	for _, d := range diags {
		// The bytes of the file come first in Text, so a range in them is in its place.
		if d.Subject == nil || d.Subject.Filename != f.filename || d.Subject.Start.Byte < f.size {
			continue
		}
		i := sort.Search(len(f.strings), func(i int) bool {
			return f.strings[i].start > d.Subject.Start.Byte
		})
		if i > 0 {
			d.Subject = f.strings[i-1].inFile(*d.Subject)
		}
	}
}

// jsonReader converts JSON values to syntax.
type jsonReader struct {
	file   *JSONFile
	counts tokenCounts
	plain  func([]byte) []byte
	diags  hcl.Diagnostics
}

func (r *jsonReader) addFault(at hcl.Range, format string, args ...any) {
	r.diags = append(r.diags, Fault(at, format, args...))
}

// property is a property of a JSON object.
type property struct {
	name  string
	at    hcl.Range
	value hcl.Expression
}

// propertiesOf returns the properties of an object.
func propertiesOf(e hcl.Expression) (list []property, isObject bool) {
	pairs, diags := hcl.ExprMap(e)
	for _, p := range pairs {
		list = append(list, property{
			name:  constantOf(p.Key).AsString(),
			at:    p.Key.Range(),
			value: p.Value,
		})
	}
	return list, !diags.HasErrors()
}

// constantOf returns the value of a JSON value without properties and elements.
func constantOf(e hcl.Expression) cty.Value {
	v, _ := e.Value(nil) // neither templates nor duplicates, which alone have faults
	return v
}

// merged returns the properties of an object, or of all objects of a list.
func (r *jsonReader) merged(e hcl.Expression) (list []property) {
	list, isObject := propertiesOf(e)
	if isObject {
		return list
	}

	// A body may be several objects, which converters write for repeated blocks.
	elements, diags := hcl.ExprList(e)
	switch {
	case diags.HasErrors() && constantOf(e).IsNull():
		return nil
	case diags.HasErrors():
		r.addFault(e.Range(), "got %s; expected an object", valueName(constantOf(e)))
		return nil
	}

	for _, element := range elements {
		inner, isObject := propertiesOf(element)
		if !isObject {
			r.addFault(element.Range(), "the list has an element that is not an object")
		}

		list = append(list, inner...)
	}

	return list
}

// body returns the body of a block. The property "//" is a comment.
func (r *jsonReader) body(e hcl.Expression, s *spec) *hclsyntax.Body {
	b := &hclsyntax.Body{
		Attributes: hclsyntax.Attributes{},
		SrcRange:   e.Range(),
		EndRange:   e.Range(),
	}

	for _, p := range r.merged(e) {
		f := s.find(p.name)
		switch {
		case p.name == "//":
		// The names of blocks come from the struct, because JSON has one form for both.
		case f != nil && f.block:
			h := header{
				kind:   f.name,
				at:     p.at,
				labels: len(f.labels()),
				spec:   specOf(f.elem()),
			}

			b.Blocks = append(b.Blocks, r.blocks(h, p.value)...)

		// A body of any content has no blocks of known names, and dynamic is a name like others there.
		case p.name == "dynamic" && len(s.fields) > 0:
			b.Blocks = append(b.Blocks, r.dynamicBlocks(s, p)...)
		case b.Attributes[p.name] != nil:
			r.addFault(p.at, "duplicate %q; expected it once", p.name)
		default:
			b.Attributes[p.name] = r.attribute(p, f)
		}
	}
	return b
}

// header is the beginning of a block.
type header struct {
	kind   string
	at     hcl.Range // the innermost property or element that has the block
	labels int       // that are to be read
	names  []string  // that were read
	ranges []hcl.Range
	spec   *spec // of its body
}

// blocks returns the blocks of a property: an object for each label, and then an object or a list of them.
func (r *jsonReader) blocks(h header, e hcl.Expression) (out hclsyntax.Blocks) {
	if h.labels > 0 {
		for _, p := range r.merged(e) {
			// All branches share h, and each has its own labels.
			inner := h
			inner.labels--
			inner.at = p.at
			inner.names = append(slices.Clip(h.names), p.name)
			inner.ranges = append(slices.Clip(h.ranges), p.at)
			out = append(out, r.blocks(inner, p.value)...)
		}
		return out
	}

	elements, diags := hcl.ExprList(e)
	if !diags.HasErrors() {
		for _, element := range elements {
			h.at = element.StartRange()
			out = append(out, r.blocks(h, element)...)
		}
		return out
	}

	_, isObject := propertiesOf(e)
	switch {
	case !isObject && constantOf(e).IsNull():
		return nil
	case !isObject && len(h.names) > 0:
		r.addFault(e.Range(), "block %q is not an object; expected %q: {\"name\": { ... }}", h.kind, h.kind)
		return nil
	case !isObject:
		r.addFault(e.Range(), "block %q is not an object; expected %q: { ... }", h.kind, h.kind)
		return nil
	}

	return hclsyntax.Blocks{{
		Type:           h.kind,
		Labels:         h.names,
		Body:           r.body(e, h.spec),
		TypeRange:      h.at,
		LabelRanges:    h.ranges,
		OpenBraceRange: e.StartRange(),
	}}
}

// dynamicBlocks returns the dynamic blocks of `"dynamic": {"block": {"for_each": ..., "content": ...}}`.
func (r *jsonReader) dynamicBlocks(s *spec, dynamic property) (out hclsyntax.Blocks) {
	// A block of an unknown name keeps its content: the decoder reports the name.
	for _, p := range r.merged(dynamic.value) {
		content := reflect.TypeFor[struct{}]()
		f := s.find(p.name)
		if f != nil && f.block {
			content = f.elem()
		}

		h := header{
			kind:   dynamic.name,
			at:     p.at,
			names:  []string{p.name},
			ranges: []hcl.Range{p.at},
			spec: &spec{fields: []*structField{
				{name: "iterator", syntax: true},
				{name: "content", typ: content, block: true, content: true},
			}},
		}

		out = append(out, r.blocks(h, p.value)...)
	}
	return out
}

// attribute returns an argument. The text of an expression is one only where the field says so.
func (r *jsonReader) attribute(p property, f *structField) *hclsyntax.Attribute {
	a := &hclsyntax.Attribute{
		Name:      p.name,
		SrcRange:  hcl.RangeBetween(p.at, p.value.Range()),
		NameRange: p.at,
	}
	if f != nil && f.syntax {
		a.Expr = r.value(p.value, expressionText)
	} else {
		a.Expr = r.value(p.value, templateText)
	}
	return a
}

// value returns a JSON value as an expression. Its strings are in the given grammar.
func (r *jsonReader) value(e hcl.Expression, g *grammar) hclsyntax.Expression {
	properties, isObject := propertiesOf(e)
	if isObject {
		return r.object(properties, e)
	}

	elements, diags := hcl.ExprList(e)
	if !diags.HasErrors() {
		list := &hclsyntax.TupleConsExpr{
			SrcRange:  e.Range(),
			OpenRange: e.StartRange(),
		}
		// The elements of a list are templates, also in an argument whose string is an expression.
		for _, element := range elements {
			list.Exprs = append(list.Exprs, r.value(element, templateText))
		}
		return list
	}

	v := constantOf(e)
	if v.Type() == cty.String {
		return r.text(v.AsString(), e.Range(), g)
	}

	return literal(v, e.Range())
}

// object returns the constructor of an object, whose keys may be templates, too.
func (r *jsonReader) object(properties []property, e hcl.Expression) hclsyntax.Expression {
	out := &hclsyntax.ObjectConsExpr{
		SrcRange:  e.Range(),
		OpenRange: e.StartRange(),
	}
	seen := map[string]bool{}
	for _, p := range properties {
		if seen[p.name] {
			r.addFault(p.at, "duplicate %q; expected it once", p.name)
		}
		seen[p.name] = true
		out.Items = append(out.Items, hclsyntax.ObjectConsItem{
			KeyExpr:   r.text(p.name, p.at, templateText),
			ValueExpr: r.value(p.value, templateText),
		})
	}
	return out
}

// literal returns an expression with a value of its own.
func literal(v cty.Value, at hcl.Range) hclsyntax.Expression {
	return &hclsyntax.LiteralValueExpr{
		Val:      v,
		SrcRange: at,
	}
}

// grammar reads the text of a string.
type grammar struct {
	lex   func(src []byte, filename string, start hcl.Pos) (hclsyntax.Tokens, hcl.Diagnostics)
	parse func(src []byte, filename string, start hcl.Pos) (hclsyntax.Expression, hcl.Diagnostics)
}

var (
	templateText   = &grammar{hclsyntax.LexTemplate, hclsyntax.ParseTemplate}
	expressionText = &grammar{hclsyntax.LexExpression, hclsyntax.ParseExpression}
)

// text returns the text of a string as an expression.
func (r *jsonReader) text(text string, at hcl.Range, g *grammar) hclsyntax.Expression {
	constant := literal(cty.StringVal(text), at)
	// Most strings are constants. They need no place in Text, and no parser.
	if g == templateText && !strings.Contains(text, "${") && !strings.Contains(text, "%{") {
		return constant
	}

	start := at.Start
	start.Column++ // after the quote
	start.Byte = len(r.file.Text)
	r.file.strings = append(r.file.strings, jsonString{
		at:      at,
		start:   start.Byte,
		escaped: len(text)+len(`""`) != at.End.Byte-at.Start.Byte,
	})

	r.file.Text = append(r.file.Text, text...)
	r.file.Text = append(r.file.Text, '"') // a fault at the end of a string is in this string
	src := r.plain([]byte(text))
	tokens, _ := g.lex(src, at.Filename, start) // the parser reports its faults
	where, reason := r.counts.add(tokens)
	// The counts are for the whole file: all its strings share the bounds of one.
	if reason != "" {
		r.addFault(where, "%s", reason)
		return constant
	}

	e, diags := g.parse(src, at.Filename, start)
	switch {
	// The value is unknown from here on. The fault is reported with the evaluation's.
	case diags.HasErrors() && g == templateText:
		r.file.Faults = append(r.file.Faults, diags...)
		return literal(cty.DynamicVal, at)
	case diags.HasErrors():
		r.diags = append(r.diags, diags...)
	}

	// The whole string is the place of a template, also for messages on its type.
	switch e := e.(type) {
	case *hclsyntax.TemplateExpr:
		e.SrcRange = at
	case *hclsyntax.TemplateWrapExpr:
		e.SrcRange = at
	}

	return e
}
