package evaluate

import (
	"bytes"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"berth/internal/conf"
	"berth/internal/spelling"
)

// inputs collects the values from outside a file.
type inputs struct {
	*Scope
	known  map[string]*variable
	values map[string]cty.Value
}

func (i *inputs) read(in *Inputs) {
	i.values = map[string]cty.Value{}
	// The prefixes are the outer loop, so one of berth's own overrides one of the dialect in any order of the
	// environment.
	for _, prefix := range envPrefixes {
		for _, entry := range in.Env {
			setting, ok := strings.CutPrefix(entry, prefix)
			name, value, _ := strings.Cut(setting, "=")
			if ok && i.known[name] != nil { // another program may use the others
				i.set(prefix+name, name, value)
			}
		}
	}

	for _, f := range in.Files {
		i.readFile(f)
	}

	for _, setting := range in.Vars {
		name, value, ok := strings.Cut(setting, "=")
		at := hcl.Range{Filename: "-var", Start: hcl.InitialPos}
		switch {
		case !ok:
			i.fault(at, "%q is not a setting; expected -var name=value", name)
		case i.find(name, at) != nil:
			i.set("-var "+name, name, value)
		}
	}
}

// find returns a variable of the file. If there is none, it adds a fault.
func (i *inputs) find(name string, at hcl.Range) *variable {
	v := i.known[name]
	if v != nil {
		return v
	}
	var names []string
	for n := range i.known {
		names = append(names, n)
	}
	hint := ""
	if near := spelling.Closest(name, names); near != "" {
		hint = "; did you mean " + near + "?"
	}
	i.fault(at, "the job file has no variable %q%s", name, hint)
	return nil
}

// set sets a variable to a value from the command line or the environment, which source names. A text needs
// no quotes. A value of another type is an expression.
func (i *inputs) set(source, name, value string) {
	v := i.known[name]
	start := hcl.Range{Filename: source, Start: hcl.InitialPos}
	if v.isText() {
		i.values[name] = i.converted(v, cty.StringVal(value), start)
		return
	}

	body, diags := conf.Parse(source, []byte("value = "+value+"\n"))
	if !diags.HasErrors() {
		var attrs hcl.Attributes
		attrs, diags = body.JustAttributes()
		// A line break in the value may begin another argument.
		if len(attrs) != 1 {
			i.fault(start, "the value is not one expression")
			return
		}

		i.assign(v, attrs["value"])
	}

	i.diags = append(i.diags, diags...)
}

// assign sets a variable to the constant of an argument.
func (i *inputs) assign(v *variable, a *hcl.Attribute) {
	// Without a context only constants have values.
	value := i.value(a.Expr, nil)
	i.values[v.Name] = i.converted(v, value, a.Expr.Range())
}

func (i *inputs) readFile(f VarFile) {
	name := f.Name
	// The name selects the parser: see conf.Parse.
	if bytes.HasPrefix(bytes.TrimSpace(f.Source), []byte("{")) {
		name = strings.TrimSuffix(name, ".json") + ".json"
	}

	body, diags := conf.Parse(name, f.Source)
	if diags.HasErrors() {
		i.diags = append(i.diags, diags...)
		return
	}

	attrs, diags := body.JustAttributes()
	i.diags = append(i.diags, diags...)
	for _, a := range attrs {
		v := i.find(a.Name, a.NameRange)
		if v != nil {
			i.assign(v, a)
		}
	}
}
