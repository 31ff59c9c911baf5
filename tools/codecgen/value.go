package codecgen

import (
	"fmt"
	"go/types"
)

// codec is how the generated code handles a type. In its expressions %[1]s is the value, and %[2]s is the
// struct with methods that the value holds.
type codec struct {
	appends string // the bytes b with the value; with fails also an error
	fails   bool
	reads   string // the bytes of b after the value, and an error
}

var (
	text      = codec{appends: "msgp.AppendString(b, %[1]s)", reads: "wire.ReadString(b, &%[1]s)"}
	namedText = codec{appends: "msgp.AppendString(b, string(%[1]s))", reads: "wire.ReadString(b, &%[1]s)"}
	boolean   = codec{appends: "msgp.AppendBool(b, %[1]s)", reads: "wire.ReadBool(b, &%[1]s)"}
	signed    = codec{appends: "msgp.AppendInt64(b, int64(%[1]s))", reads: "wire.ReadInt(b, &%[1]s)"}
	unsigned  = codec{appends: "msgp.AppendUint64(b, uint64(%[1]s))", reads: "wire.ReadUint(b, &%[1]s)"}
	float     = codec{appends: "msgp.AppendFloat64(b, %[1]s)", reads: "wire.ReadFloat(b, &%[1]s)"}
	moment    = codec{appends: "wire.AppendTime(b, %[1]s)", reads: "wire.ReadTime(b, &%[1]s)"}
	texts     = codec{appends: "wire.AppendStrings(b, %[1]s)", reads: "wire.ReadStrings(b, &%[1]s)"}
	textMap   = codec{
		appends: "wire.AppendStringMap(b, %[1]s)",
		reads:   "wire.ReadStringMap(b, (*map[string]string)(&%[1]s))",
	}
	intMap    = codec{appends: "wire.AppendIntMap(b, %[1]s)", reads: "wire.ReadIntMap(b, &%[1]s)"}
	floatMap  = codec{appends: "wire.AppendFloatMap(b, %[1]s)", reads: "wire.ReadFloatMap(b, &%[1]s)"}
	structure = codec{
		appends: "%[1]s.AppendMsgpack(b)",
		fails:   true,
		reads:   "%[1]s.DecodeMsgpack(b)",
	}
	pointer = codec{
		appends: "%[1]s.AppendMsgpack(b)",
		fails:   true,
		reads:   "wire.ReadPointer(b, &%[1]s, (*%[2]s).DecodeMsgpack)",
	}
	pointers   = manyOf("Pointers")
	structures = manyOf("Slice")
	pointerMap = manyOf("Map")
	other      = codec{
		appends: "wire.AppendOther(b, &%[1]s)",
		fails:   true,
		reads:   "wire.ReadOther(b, &%[1]s)",
	}
)

// manyOf returns the codec of a value with many structs that have methods. Package codec has a function to
// append it and one to read it, whose names have the same ending.
func manyOf(name string) codec {
	return codec{
		appends: "wire.Append" + name + "(b, %[1]s,\n(*%[2]s).AppendMsgpack)",
		fails:   true,
		reads:   "wire.Read" + name + "(b, &%[1]s, (*%[2]s).DecodeMsgpack)",
	}
}

// codecOf returns how to handle a value of type t.
func (g *generator) codecOf(value string, t types.Type) codec {
	c, held := g.findCodec(t)
	name := types.TypeString(held, types.RelativeTo(g.pkg))
	c.appends = fmt.Sprintf(c.appends, value, name)
	c.reads = fmt.Sprintf(c.reads, value, name)
	return c
}

// findCodec returns the codec of a type, and the struct with methods that a value of the type holds.
func (g *generator) findCodec(t types.Type) (c codec, held types.Type) {
	switch {
	case g.hot[t]:
		return structure, t
	case encodesItself(t):
		return other, t
	case isTime(t):
		return moment, t
	case isTextMap(t):
		return textMap, t
	}

	switch t := t.(type) {
	case *types.Pointer:
		if g.hot[t.Elem()] {
			return pointer, t.Elem()
		}
	case *types.Map:
		return g.findMap(t)
	case *types.Slice:
		return g.findSlice(t)
	}
	return findBasic(t), t
}

func (g *generator) findMap(t *types.Map) (c codec, held types.Type) {
	to, ok := t.Elem().(*types.Pointer)
	switch {
	case !isString(t.Key()):
		return other, t
	case ok && g.hot[to.Elem()]:
		return pointerMap, to.Elem()
	case t.Elem() == types.Typ[types.Int]:
		return intMap, t
	case t.Elem() == types.Typ[types.Float64]:
		return floatMap, t
	}
	return other, t
}

func (g *generator) findSlice(t *types.Slice) (c codec, held types.Type) {
	to, ok := t.Elem().(*types.Pointer)
	switch {
	case ok && g.hot[to.Elem()]:
		return pointers, to.Elem()
	case g.hot[t.Elem()]:
		return structures, t.Elem()
	case isString(t.Elem()):
		return texts, t
	}
	return other, t
}

// isTextMap reports whether a type is a map of strings to strings. It may have a name.
func isTextMap(t types.Type) bool {
	m, ok := t.Underlying().(*types.Map)
	return ok && isString(m.Key()) && isString(m.Elem())
}

// isString reports whether a type is string itself.
func isString(t types.Type) bool {
	return t == types.Typ[types.String]
}

func findBasic(t types.Type) codec {
	basic, ok := t.Underlying().(*types.Basic)
	if !ok {
		return other
	}

	switch info := basic.Info(); {
	case isString(t):
		return text
	case info&types.IsString != 0:
		return namedText
	case t == types.Typ[types.Bool]:
		return boolean
	case info&types.IsUnsigned != 0 && basic.Kind() != types.Uintptr:
		return unsigned
	case info&types.IsInteger != 0 && info&types.IsUnsigned == 0:
		return signed
	case t == types.Typ[types.Float64]:
		return float
	}

	return other
}
