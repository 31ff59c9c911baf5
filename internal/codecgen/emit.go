package codecgen

import (
	"fmt"
	"go/types"
	"strconv"

	"github.com/tinylib/msgp/msgp"
)

// methods writes the methods of one struct.
func (g *generator) methods(l *layout) error {
	g.printf("\nfunc (v *%s) MsgpackSelf() any { return v }\n", l.name())
	if err := g.appender(l); err != nil {
		return err
	}
	g.printf("\nfunc (v *%[1]s) DecodeMsgpack(b []byte) ([]byte, error) {\n"+
		"if msgp.IsNil(b) {\n*v = %[1]s{}\nreturn b[1:], nil\n}\n"+
		"return codec.ReadFields(b, v, v.readField)\n}\n", l.name())
	return g.reader(l)
}

// appender writes AppendMsgpack.
func (g *generator) appender(l *layout) error {
	g.printf("\nfunc (v *%s) AppendMsgpack(b []byte) (_ []byte, err error) {\nif v == nil {\nreturn msgp.AppendNil(b), nil\n}\n", l.name())
	g.printf("n := uint32(%d)\n", len(l.flat))
	for _, f := range l.flat {
		if f.omitEmpty {
			set, err := nonZero("v."+f.path, f.typ)
			if err != nil {
				return fmt.Errorf("%s.%s: %w", l.name(), f.path, err)
			}
			g.printf("if !(%s) {\nn--\n}\n", set)
		}
	}
	g.printf("b = msgp.AppendMapHeader(b, n)\n")
	for _, f := range l.flat {
		if err := g.appendField(l, f); err != nil {
			return fmt.Errorf("%s.%s: %w", l.name(), f.path, err)
		}
	}
	g.printf("return b, nil\n}\n")
	return nil
}

// appendField appends a field's name and value.
func (g *generator) appendField(l *layout, f field) error {
	value, fails, err := g.appendExpr("v."+f.path, f.typ)
	if err != nil {
		return err
	}
	if f.omitEmpty {
		set, err := nonZero("v."+f.path, f.typ)
		if err != nil {
			return err
		}
		g.printf("if %s {\n", set)
	}
	g.printf("b = append(b, %s...)\n", strconv.QuoteToASCII(string(msgp.AppendString(nil, f.wire))))
	if fails {
		g.printf("if b, err = %s; err != nil {\nreturn b, codec.EncodeError(%q, err)\n}\n", value, f.wire)
	} else {
		g.printf("b = %s\n", value)
	}
	if f.omitEmpty {
		g.printf("}\n")
	}
	return nil
}

// reader writes readField: a switch over the struct's own fields, then those of what it embeds.
func (g *generator) reader(l *layout) error {
	g.printf("\nfunc (v *%s) readField(name, b []byte) (_ []byte, known bool, err error) {\n", l.name())
	if len(l.own) > 0 {
		g.printf("switch string(name) {\n")
	}
	for _, f := range l.own {
		read, err := g.readStmt("v."+f.path, f)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", l.name(), f.path, err)
		}
		g.printf("case %q:\n%s\n", f.wire, read)
	}
	if len(l.own) > 0 {
		g.printf("default:\n")
	}
	last := "b, false, nil"
	for i, e := range l.embedded {
		if i == len(l.embedded)-1 {
			last = fmt.Sprintf("v.%s.readField(name, b)", e.path)
			break
		}
		g.printf("if b, known, err = v.%s.readField(name, b); known {\nreturn b, true, err\n}\n", e.path)
	}
	g.printf("return %s\n", last)
	if len(l.own) > 0 {
		g.printf("}\nreturn b, true, err\n")
	}
	g.printf("}\n")
	return nil
}

// nonZero is an expression that says that x is to be written although empty values are left out.
func nonZero(x string, t types.Type) (string, error) {
	switch u := t.Underlying().(type) {
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
	return "", fmt.Errorf("no idea when a %s is empty", t)
}

// goName is a type as the generated file names it.
func (g *generator) goName(t types.Type) string { return types.TypeString(t, types.RelativeTo(g.pkg)) }
