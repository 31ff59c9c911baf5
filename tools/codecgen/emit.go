package codecgen

import (
	"fmt"
	"go/types"
	"strconv"

	"github.com/tinylib/msgp/msgp"
)

// writeMethods writes the methods of one struct.
func (g *generator) writeMethods(l *layout) error {
	g.printf("\nfunc (v *%s) MsgpackSelf() any { return v }\n", l.name)
	if err := g.writeAppend(l); err != nil {
		return err
	}
	g.printf("\nfunc (v *%[1]s) DecodeMsgpack(b []byte) ([]byte, error) {\n"+
		"if msgp.IsNil(b) {\n*v = %[1]s{}\nreturn b[1:], nil\n}\n"+
		"return wire.ReadFields(b, v, v.readField)\n}\n", l.name)
	return g.writeReadField(l)
}

// writeAppend writes AppendMsgpack.
func (g *generator) writeAppend(l *layout) error {
	g.printf("\nfunc (v *%s) AppendMsgpack(b []byte) (_ []byte, err error) {\n", l.name)
	g.printf("if v == nil {\nreturn msgp.AppendNil(b), nil\n}\n")
	g.printf("n := uint32(%d)\n", len(l.flat))
	for _, f := range l.flat {
		if !f.omitEmpty {
			continue
		}

		set, err := nonZero(f)
		if err != nil {
			return err
		}

		g.printf("if !(%s) {\nn--\n}\n", set)
	}

	g.printf("b = msgp.AppendMapHeader(b, n)\n")
	for _, f := range l.flat {
		g.writeAppendField(f)
	}

	g.printf("return b, nil\n}\n")
	return nil
}

// writeAppendField writes code that appends the name and the value of a field.
func (g *generator) writeAppendField(f field) {
	if f.omitEmpty {
		set, _ := nonZero(f)
		g.printf("if %s {\n", set)
	}
	name := msgp.AppendString(nil, f.wire)
	g.printf("b = append(b, %s...)\n", strconv.QuoteToASCII(string(name)))
	c := g.codecOf("v."+f.path, f.typ)
	if c.fails {
		g.printf("if b, err = %s; err != nil {\nreturn b, err\n}\n", c.appends)
	} else {
		g.printf("b = %s\n", c.appends)
	}
	if f.omitEmpty {
		g.printf("}\n")
	}
}

// writeReadField writes readField: a switch over the fields of the struct itself, then of the structs that
// it embeds.
func (g *generator) writeReadField(l *layout) error {
	g.printf("\nfunc (v *%s) readField(name, b []byte) (_ []byte, known bool, err error) {\n", l.name)
	if len(l.own) == 0 {
		defer g.printf("}\n")
		return g.writeReadEmbedded(l)
	}
	g.printf("switch string(name) {\n")
	for _, f := range l.own {
		g.printf("case %q:\nb, err = %s\n", f.wire,
			g.codecOf("v."+f.path, f.typ).reads)
	}
	g.printf("default:\n")
	if err := g.writeReadEmbedded(l); err != nil {
		return err
	}
	g.printf("}\nreturn b, true, err\n}\n")
	return nil
}

// writeReadEmbedded writes code that reads the field of an embedded struct.
func (g *generator) writeReadEmbedded(l *layout) error {
	for i, e := range l.embedded {
		if !g.hot[e.typ] {
			return fmt.Errorf("it embeds %s, which has no codec", e.path)
		}
		if i == len(l.embedded)-1 {
			g.printf("return v.%s.readField(name, b)\n", e.path)
			return nil
		}
		g.printf("if b, known, err = v.%s.readField(name, b); known {\nreturn b, true, err\n}\n", e.path)
	}
	g.printf("return b, false, nil\n")
	return nil
}

// nonZero returns an expression for: the field is not empty.
func nonZero(f field) (string, error) {
	x := "v." + f.path
	switch u := f.typ.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsString != 0:
			return x + ` != ""`, nil
		case u.Info()&types.IsBoolean != 0:
			return x, nil
		case u.Info()&types.IsNumeric != 0:
			return x + " != 0", nil
		}

	case *types.Pointer:
		return x + " != nil", nil
	case *types.Slice, *types.Map:
		return "len(" + x + ") != 0", nil
	}
	return "", fmt.Errorf("%s: an empty %s is not known", f.path, f.typ)
}
