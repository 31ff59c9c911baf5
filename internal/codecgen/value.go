package codecgen

import (
	"fmt"
	"go/types"
)

// codecOf says whether a type is one of the structs that get methods.
func (g *generator) codecOf(t types.Type) bool {
	named, ok := t.(*types.Named)
	return ok && g.structs[named] != nil
}

// pointee is what a pointer to one of the structs that get methods points to.
func (g *generator) pointee(t types.Type) (string, bool) {
	p, ok := t.(*types.Pointer)
	if !ok || !g.codecOf(p.Elem()) {
		return "", false
	}
	return g.goName(p.Elem()), true
}

// isStrings reports whether a type is a map of strings. It may have a name.
func isStrings(t types.Type) bool {
	m, ok := t.Underlying().(*types.Map)
	return ok && m.Key() == types.Typ[types.String] && m.Elem() == types.Typ[types.String]
}

// appendExpr is an expression that appends x of type t to b. It fails if its value is ([]byte, error).
func (g *generator) appendExpr(x string, t types.Type) (expr string, fails bool, err error) {
	if named, ok := t.(*types.Named); ok && hasOwnCodec(named) {
		return "", false, fmt.Errorf("%s writes itself", t)
	}
	_, toStruct := g.pointee(t)
	switch {
	case toStruct || g.codecOf(t):
		return x + ".AppendMsgpack(b)", true, nil
	case isStrings(t):
		return fmt.Sprintf("codec.AppendStringMap(b, %s)", x), false, nil
	case isTime(t):
		return fmt.Sprintf("codec.AppendTime(b, %s)", x), false, nil
	}
	return g.appendKind(x, t)
}

// appendKind is appendExpr for a type that is nothing special, by its kind.
func (g *generator) appendKind(x string, t types.Type) (expr string, fails bool, err error) {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		if to, ok := appendBasic[u.Kind()]; ok {
			if t.String() != to.as {
				x = to.as + "(" + x + ")"
			}
			return fmt.Sprintf("msgp.Append%s(b, %s)", to.with, x), false, nil
		}
	case *types.Pointer:
		one, err := g.appendFunc(u.Elem(), true)
		return fmt.Sprintf("codec.AppendPointer(b, %s, %s)", x, one), true, err
	case *types.Slice:
		return g.appendSlice(x, u.Elem())
	case *types.Map:
		if key, ok := u.Key().Underlying().(*types.Basic); !ok || key.Kind() != types.String {
			break
		}
		one, err := g.appendFunc(u.Elem(), false)
		return fmt.Sprintf("codec.AppendMap(b, %s, %s)", x, one), true, err
	case *types.Interface:
		if u.Empty() {
			return fmt.Sprintf("codec.AppendAny(b, %s)", x), true, nil
		}
	}
	return "", false, fmt.Errorf("no codec for %s", t)
}

func (g *generator) appendSlice(x string, elem types.Type) (string, bool, error) {
	if elem == types.Typ[types.String] {
		return fmt.Sprintf("codec.AppendStrings(b, %s)", x), false, nil
	}
	if to, ok := g.pointee(elem); ok {
		return fmt.Sprintf("codec.AppendPointers(b, %s, (*%s).AppendMsgpack)", x, to), true, nil
	}
	if basic, ok := elem.Underlying().(*types.Basic); ok && basic.Kind() == types.Uint8 {
		return "", false, fmt.Errorf("no codec for bytes")
	}
	one, err := g.appendFunc(elem, true)
	return fmt.Sprintf("codec.AppendSlice(b, %s, %s)", x, one), true, err
}

// appendFunc is a function that appends a value of type t, given itself or by pointer.
func (g *generator) appendFunc(t types.Type, byPointer bool) (string, error) {
	param, x := g.goName(t), "e"
	if byPointer {
		param, x = "*"+param, "(*e)"
		if g.codecOf(t) {
			return fmt.Sprintf("(%s).AppendMsgpack", param), nil
		}
	} else if to, ok := g.pointee(t); ok {
		return fmt.Sprintf("(*%s).AppendMsgpack", to), nil
	}
	expr, fails, err := g.appendExpr(x, t)
	if !fails {
		expr += ", nil"
	}
	return fmt.Sprintf("func(e %s, b []byte) ([]byte, error) { return %s }", param, expr), err
}

// appendBasic are the functions of msgp by kind, and the type of what they append.
var appendBasic = map[types.BasicKind]struct{ with, as string }{
	types.String: {"String", "string"}, types.Bool: {"Bool", "bool"}, types.Float64: {"Float64", "float64"},
	types.Int: {"Int64", "int64"}, types.Int8: {"Int64", "int64"}, types.Int16: {"Int64", "int64"},
	types.Int32: {"Int64", "int64"}, types.Int64: {"Int64", "int64"},
	types.Uint: {"Uint64", "uint64"}, types.Uint8: {"Uint64", "uint64"}, types.Uint16: {"Uint64", "uint64"},
	types.Uint32: {"Uint64", "uint64"}, types.Uint64: {"Uint64", "uint64"},
}

// readStmt is a statement that reads a field into x, from and to b, and sets err.
func (g *generator) readStmt(x string, f field) (string, error) {
	expr, err := g.readExpr("&"+x, f.typ)
	if err == nil {
		return "b, err = " + expr, nil
	}
	value, err := g.readBasic(f.typ)
	return fmt.Sprintf("%s, b, err = %s(b)", x, value), err
}

// readBasic is a function that reads a value of type t and returns it.
func (g *generator) readBasic(t types.Type) (string, error) {
	if isTime(t) {
		return "codec.ReadTime", nil
	}
	basic, ok := t.Underlying().(*types.Basic)
	if !ok {
		return "", fmt.Errorf("no codec for %s", t)
	}
	named := t != t.Underlying()
	switch info := basic.Info(); {
	case info&types.IsString != 0 && named:
		return fmt.Sprintf("codec.ReadText[%s]", g.goName(t)), nil
	case info&types.IsString != 0:
		return "codec.ReadString", nil
	case info&types.IsBoolean != 0 && !named:
		return "codec.ReadBool", nil
	case info&types.IsUnsigned != 0 && basic.Kind() != types.Uintptr:
		return fmt.Sprintf("codec.ReadUint[%s]", g.goName(t)), nil
	case info&types.IsInteger != 0 && info&types.IsUnsigned == 0:
		return fmt.Sprintf("codec.ReadInt[%s]", g.goName(t)), nil
	case basic.Kind() == types.Float64 && !named:
		return "codec.ReadFloat", nil
	}
	return "", fmt.Errorf("no codec for %s", t)
}

// readExpr is an expression of value ([]byte, error) that reads from b into what p points to, of type t.
func (g *generator) readExpr(p string, t types.Type) (string, error) {
	if g.codecOf(t) {
		return fmt.Sprintf("(%s).DecodeMsgpack(b)", p), nil
	}
	if isStrings(t) {
		return fmt.Sprintf("codec.ReadStringMap(b, (*map[string]string)(%s))", p), nil
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		one, err := g.readFunc(u.Elem())
		return fmt.Sprintf("codec.ReadPointer(b, %s, %s)", p, one), err
	case *types.Slice:
		return g.readSlice(p, u.Elem())
	case *types.Map:
		one, err := g.readFunc(u.Elem())
		return fmt.Sprintf("codec.ReadMap(b, %s, %s)", p, one), err
	case *types.Interface:
		return fmt.Sprintf("codec.ReadAny(b, %s)", p), nil
	}
	return "", fmt.Errorf("no codec for %s", t)
}

func (g *generator) readSlice(p string, elem types.Type) (string, error) {
	if elem == types.Typ[types.String] {
		return fmt.Sprintf("codec.ReadStrings(b, %s)", p), nil
	}
	if to, ok := g.pointee(elem); ok {
		return fmt.Sprintf("codec.ReadPointers(b, %s, (*%s).DecodeMsgpack)", p, to), nil
	}
	one, err := g.readFunc(elem)
	return fmt.Sprintf("codec.ReadSlice(b, %s, %s)", p, one), err
}

// readFunc is a function that reads a value of type t into what a pointer points to.
func (g *generator) readFunc(t types.Type) (string, error) {
	name := g.goName(t)
	if g.codecOf(t) {
		return fmt.Sprintf("(*%s).DecodeMsgpack", name), nil
	}
	if expr, err := g.readExpr("e", t); err == nil {
		return fmt.Sprintf("func(e *%s, b []byte) ([]byte, error) { return %s }", name, expr), nil
	}
	value, err := g.readBasic(t)
	return fmt.Sprintf("func(e *%s, b []byte) (rest []byte, err error) { *e, rest, err = %s(b); return rest, err }", name, value), err
}
