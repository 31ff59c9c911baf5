package conf

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"berth/internal/spelling"
)

// DecodeBody reads a body into dst, a pointer to a struct. A nil ctx allows constants only. In JSON it also
// keeps strings as they are written, without templates.
func DecodeBody(body hcl.Body, ctx *hcl.EvalContext, dst any) hcl.Diagnostics {
	return DecodePartly(body, ctx, dst, nil)
}

// DecodePartly is DecodeBody. It also adds to unset what dst lacks because of the faults.
func DecodePartly(body hcl.Body, ctx *hcl.EvalContext, dst any, unset *Unset) hcl.Diagnostics {
	d := decoder{
		ctx:   ctx,
		unset: unset,
	}
	d.decodeBody(body, reflect.ValueOf(dst).Elem())
	return d.diags
}

// A field of this type gets the expression unevaluated: a caller evaluates it when the variables in it have
// values.
var expressionType = reflect.TypeFor[hcl.Expression]()

// decoder decodes one file. It goes on after a fault, so that a user sees all of them at once.
type decoder struct {
	ctx   *hcl.EvalContext
	diags hcl.Diagnostics
	unset *Unset

	positions Positions
	path      string // of the block that is being decoded, with a dot after it
}

func (d *decoder) addFault(at hcl.Range, format string, args ...any) {
	d.diags = append(d.diags, Fault(at, format, args...))
}

// item is one argument or block of a body, in either syntax.
type item struct {
	name   string
	in     hcl.Body
	at     hcl.Range
	expr   hcl.Expression // of an argument
	body   hcl.Body       // of a block
	labels []string
}

// kind names an item in a message.
func (i *item) kind() string {
	if i.body != nil {
		return "block"
	}
	return "argument"
}

// decodeBody reads a body into a struct that may have values already: an absent argument keeps the value.
func (d *decoder) decodeBody(body hcl.Body, dst reflect.Value) {
	s := specOf(dst.Type())
	seen := map[string]bool{}
	for _, it := range d.itemsOf(body, s) {
		// An item of an unknown name is a fault, and never dropped: a misspelt setting would have no effect.
		f := s.find(it.name)
		if f == nil {
			d.addUnknown(s, it)
			continue
		}

		d.positions.record(d.path+it.name, it)
		d.decodeItem(f, it, dst.FieldByIndex(f.index), seen[it.name])
		seen[it.name] = true
	}

	for _, f := range s.fields {
		if f.required && !seen[f.name] {
			// A caller that looks for what the faults have caused must know of this one, too.
			d.unset.AddArgument(body, f.name)
			d.addFault(body.MissingItemRange(),
				"missing argument %q; expected %s", f.name, expected(f.typ))
		}
	}
}

// itemsOf lists the arguments and blocks of a body in source order. JSON blocks of one name keep their order,
// because they have one position.
func (d *decoder) itemsOf(body hcl.Body, s *spec) []*item {
	var out []*item
	attrs, blocks := d.content(body, s)
	for _, a := range attrs {
		out = append(out, &item{
			name: a.Name,
			in:   body,
			at:   a.NameRange,
			expr: a.Expr,
		})
	}

	for _, b := range blocks {
		out = append(out, &item{
			name:   b.Type,
			in:     body,
			at:     b.TypeRange,
			body:   b.Body,
			labels: b.Labels,
		})
	}

	// The two kinds come from maps, whose order changes. The faults follow the file.
	slices.SortStableFunc(out, func(a, b *item) int {
		return a.at.Start.Byte - b.at.Start.Byte
	})
	return out
}

// content returns the arguments and blocks of a body. It reads JSON by the schema of the struct, because in
// JSON a block and an argument have the same form.
func (d *decoder) content(body hcl.Body, s *spec) (attrs []*hcl.Attribute, blocks hcl.Blocks) {
	if native, ok := body.(*hclsyntax.Body); ok {
		for _, a := range native.Attributes {
			attrs = append(attrs, a.AsHCLAttribute())
		}
		for _, b := range native.Blocks {
			blocks = append(blocks, b.AsHCLBlock())
		}
		return attrs, blocks
	}
	// The rest is read as arguments: its names are not in the schema, and each is a fault of its own.
	known, rest, diags := body.PartialContent(s.schema())
	others, more := rest.JustAttributes()
	d.diags = slices.Concat(d.diags, diags, more)
	attrs = slices.Collect(maps.Values(known.Attributes))
	attrs = slices.AppendSeq(attrs, maps.Values(others))
	return attrs, known.Blocks
}

// addUnknown adds a fault for an item that the struct does not have, or a warning if the item is ignored. An
// item that the file probably means is then unset.
func (d *decoder) addUnknown(s *spec, it *item) {
	remedy, rejected := s.rejected[it.name]
	reason, ignored := s.ignored[it.name]
	unsupported := slices.Contains(s.unsupported, it.name)
	switch {
	case (rejected || ignored || unsupported) && d.asksForNothing(it):
		return
	case rejected:
		d.addFault(it.at, "%q is not supported by berth: %s", it.name, remedy)
		return
	case ignored:
		d.diags = append(d.diags, Warning(it.at, "%q has no effect: %s", it.name, reason))
		return
	case unsupported:
		d.addFault(it.at, "%q is not supported by berth yet", it.name)
		return
	}

	names := s.names()
	hint := ""
	meant := spelling.Closest(it.name, names)
	if meant != "" {
		hint = fmt.Sprintf(" (did you mean %q?)", meant)
		// Only an item of the same form can be meant: a block does not set an argument.
		if s.find(meant).block == (it.body != nil) {
			d.lose(it, meant)
		}
	}

	known := strings.Join(names, ", ")
	d.addFault(it.at, "unsupported %s %q%s; expected one of: %s",
		it.kind(), it.name, hint, known)
}

// lose notes that the struct lacks an item, or the item of another name that it probably means.
func (d *decoder) lose(it *item, name string) {
	if it.body != nil {
		d.unset.AddBlock(it.in, name)
	} else {
		d.unset.AddArgument(it.in, name)
	}
}

// asksForNothing reports whether an item is an argument with an empty value: a file that says false, 0, "" or
// null has the same meaning as one without the argument. It also adds the faults of the value.
func (d *decoder) asksForNothing(it *item) bool {
	if it.body != nil {
		return false
	}

	// The value is evaluated also if it has no effect, because a fault in it is one of the file.
	v, diags := it.expr.Value(d.ctx)
	d.diags = append(d.diags, diags...)
	switch {
	case diags.HasErrors() || v.IsNull():
		return true
	// A value that depends on a fault elsewhere may ask for something.
	case !v.IsWhollyKnown():
		return false
	case v.Type() == cty.Bool:
		return v.False()
	case v.Type() == cty.Number:
		return v.AsBigFloat().Sign() == 0
	case v.Type() == cty.String:
		return v.AsString() == ""
	case v.CanIterateElements():
		return v.LengthInt() == 0
	}

	return false
}

// decodeItem reads an item into its field. again reports that the body had one of the name before.
func (d *decoder) decodeItem(f *structField, it *item, dst reflect.Value, again bool) {
	if f.placeholders {
		keepPlaceholders(it)
	}

	switch {
	case f.block && it.body == nil:
		d.unset.AddBlock(it.in, it.name)
		d.addFault(it.at, "%q is a block; expected %s { ... }",
			it.name, blockHeader(f))
	case f.block:
		d.decodeBlock(f, it, dst, again)
	case it.body != nil && !f.isMap():
		d.lose(it, it.name)
		d.addFault(it.at, "%q is an argument; expected %s = %s",
			it.name, it.name, expected(f.typ))
	case again:
		d.addFault(it.at, "duplicate %q; expected it once", it.name)
	case it.body != nil:
		d.decodeMapBlock(f, it, dst)
	default:
		d.decodeArgument(it, dst)
	}
}

// blockHeader returns the beginning of a block as a file writes it, for messages.
func blockHeader(f *structField) string {
	if len(f.labels()) > 0 {
		return f.name + ` "name"`
	}
	return f.name
}

// decodeArgument evaluates an argument and sets a field. After a fault the field keeps its value.
func (d *decoder) decodeArgument(it *item, dst reflect.Value) {
	if dst.Type() == expressionType {
		dst.Set(reflect.ValueOf(it.expr))
		return
	}
	v, diags := it.expr.Value(d.ctx)
	d.diags = append(d.diags, diags...)
	if diags.HasErrors() || !v.IsWhollyKnown() {
		d.lose(it, it.name)
		return
	}
	err := setField(dst, v)
	if err != nil {
		d.lose(it, it.name)
		d.addFault(it.expr.Range(),
			"invalid value for %q: %v", it.name, err)
	}
}

// decodeBlock reads a block into a field, or into a new element of a field that has several.
func (d *decoder) decodeBlock(f *structField, it *item, dst reflect.Value, again bool) {
	if len(f.labels()) != len(it.labels) {
		d.lose(it, it.name)
		d.addFault(it.at, "block %q has %d labels; expected %s { ... }",
			it.name, len(it.labels), blockHeader(f))
		return
	}

	elem := newElem(f.elem(), it)
	kind := f.typ.Kind()
	switch {
	case kind == reflect.Slice:
		dst.Set(reflect.Append(dst, elem))
	case kind == reflect.Map:
		key := reflect.ValueOf(it.labels[0])
		if dst.IsNil() {
			dst.Set(reflect.MakeMap(f.typ))
		}

		// The first one stays. The body of the second is not read, because its faults would be of no block.
		if dst.MapIndex(key).IsValid() {
			d.addFault(it.at, "duplicate block %s %q; expected each name once",
				it.name, it.labels[0])
			return
		}

		dst.SetMapIndex(key, elem)

	case again:
		d.addFault(it.at, "duplicate block %q; expected it once", it.name)
		return
	case kind == reflect.Struct:
		elem = dst.Addr()
	case dst.IsNil():
		dst.Set(elem)
	default:
		elem = dst
	}

	outer := d.path
	d.path += it.name + "."
	d.decodeBody(it.body, elem.Elem()) // in place, because absent arguments keep their values
	d.path = outer
}

// newElem returns a pointer to a new struct with the label and the position of a block.
func newElem(t reflect.Type, it *item) reflect.Value {
	ptr := reflect.New(t)
	s := specOf(t)
	if s.label != nil {
		ptr.Elem().FieldByIndex(s.label).
			SetString(it.labels[0])
	}
	if s.at != nil {
		ptr.Elem().FieldByIndex(s.at).
			Set(reflect.ValueOf(it.at))
	}
	return ptr
}

// decodeMapBlock reads `meta { a = "b" }` into a map argument.
func (d *decoder) decodeMapBlock(f *structField, it *item, dst reflect.Value) {
	if len(it.labels) > 0 {
		d.lose(it, it.name)
		d.addFault(it.at, "block %q has a label; expected %s { ... }",
			it.name, it.name)
		return
	}

	elem := f.typ.Elem()
	if elem.Kind() == reflect.Interface {
		dst.Set(reflect.ValueOf(d.freeBody(it.body)))
		return
	}

	m := reflect.MakeMap(f.typ)
	for _, in := range d.itemsOf(it.body, &spec{}) {
		if in.body != nil {
			d.addFault(in.at, "unsupported block %q; expected %s = %s",
				in.name, in.name, expected(elem))
			continue
		}

		v := reflect.New(elem).Elem()
		d.decodeArgument(in, v)
		m.SetMapIndex(reflect.ValueOf(in.name), v)
	}

	dst.Set(m)
}

// freeBody reads a body of any content. Blocks become lists of maps, and so does each of their labels.
func (d *decoder) freeBody(body hcl.Body) map[string]any {
	m := map[string]any{}
	for _, it := range d.itemsOf(body, &spec{}) {
		d.freeItem(it, m)
	}
	return m
}

// freeItem adds an argument or block of any name and content to m.
func (d *decoder) freeItem(it *item, m map[string]any) {
	if it.body == nil {
		var v any
		d.decodeArgument(it, reflect.ValueOf(&v).Elem())
		m[it.name] = v
		return
	}

	before := d.unset.len()
	var inner any = d.freeBody(it.body)
	if d.unset.len() > before {
		d.lose(it, it.name)
	}

	for _, label := range slices.Backward(it.labels) {
		inner = map[string]any{label: []any{inner}}
	}

	list, isList := m[it.name].([]any)
	if m[it.name] != nil && !isList {
		d.addFault(it.at, "%q is an argument above and a block here; expected one of the two", it.name)
		return
	}

	m[it.name] = append(list, inner)
}
