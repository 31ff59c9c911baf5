package evaluate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"

	"berth/internal/conf"
	"berth/jobspec/functions"
	"berth/structs"
)

// Inputs are the values of variables from outside the file, and the folder of the file. A later one
// overrides an earlier one, in the order Env, Files, Vars.
type Inputs struct {
	Dir     string    // the folder of the file functions, "" rejects them
	Allowed []string  // absolute paths of files and folders elsewhere that these functions may read
	Env     []string  // NAME=value; NOMAD_VAR_x and BERTH_VAR_x set variable x, the second one first
	Files   []VarFile // an unknown variable is an error
	Vars    []string  // name=value; an unknown variable is an error
}

// VarFile is a file of values, name = value. A name that ends in .json is JSON.
type VarFile struct {
	Name   string // in messages
	Source []byte
}

// Scope has the values of a file.
type Scope struct {
	faults
	start        hcl.Range
	budget       *functions.Budget
	unset        *conf.Unset
	functions    map[string]function.Function
	vars, locals map[string]cty.Value
}

// newScope makes the values of a file. Its functions and its expressions share one budget.
func newScope(filename string, body *hclsyntax.Body, in *Inputs) *Scope {
	b := functions.NewBudget()
	return &Scope{
		start:     hcl.Range{Filename: filename, Start: body.SrcRange.Start, End: body.SrcRange.Start},
		budget:    b,
		unset:     conf.NewUnset(),
		functions: b.Table(functions.Files{Dir: in.Dir, Allowed: in.Allowed}),
		vars:      map[string]cty.Value{},
		locals:    map[string]cty.Value{},
	}
}

// Context returns the values with which the expressions of the file are evaluated.
func (s *Scope) Context() *hcl.EvalContext {
	return &hcl.EvalContext{
		Functions: s.functions,
		Variables: map[string]cty.Value{
			// These are copies, so a context has the values so far.
			"var":   cty.ObjectVal(s.vars),
			"local": cty.ObjectVal(s.locals),
		},
	}
}

// Start is the beginning of the file, for faults of the whole.
func (s *Scope) Start() hcl.Range { return s.start }

// Faults returns the faults and warnings of the values so far.
func (s *Scope) Faults() hcl.Diagnostics { return s.diags }

// Unset returns what the body lacks because of the faults of values. The decoder of the body adds to it.
func (s *Scope) Unset() *conf.Unset { return s.unset }

// Exceeded reports whether the evaluation has cost more than a file may cost. The values are then unknown.
func (s *Scope) Exceeded() bool { return s.budget.Exceeded() }

// value returns the value of an expression, an unknown one after a fault.
func (s *Scope) value(e hcl.Expression, ctx *hcl.EvalContext) cty.Value {
	v, diags := e.Value(ctx)
	s.diags = append(s.diags, diags...)
	if diags.HasErrors() {
		return cty.DynamicVal
	}
	return v
}

// NameUndeclared gives the faults of var.NAME a text that names the missing block. For HCL var is an object.
func (s *Scope) NameUndeclared(diags hcl.Diagnostics) {
	for _, d := range diags {
		e, ok := d.Expression.(*hclsyntax.ScopeTraversalExpr)
		if !ok || len(e.Traversal) < 2 || e.Traversal.RootName() != "var" {
			continue
		}
		attr, ok := e.Traversal[1].(hcl.TraverseAttr)
		if _, declared := s.vars[attr.Name]; !ok || declared {
			continue
		}
		d.Summary = fmt.Sprintf("there is no variable %q; expected a block to declare it: variable %q { }",
			attr.Name, attr.Name)
		d.Detail = ""
	}
}

// VariableFile has the variables of a file. A job file in JSON has them beside its other blocks.
type VariableFile struct {
	Variables []*variable `hcl:"variable,block"`
}

// variable is a variable block. Its description and its sensitivity are for readers of the file.
type variable struct {
	Name        string         `hcl:",label"`
	At          hcl.Range      `hcl:",range"`
	Default     hcl.Expression `hcl:"default"`
	Description string         `hcl:"description"`
	Sensitive   bool           `hcl:"sensitive"`
	Type        hcl.Expression `hcl:"type,syntax"`
	Validations []*validation  `hcl:"validation,block"`

	constraint cty.Type // of type
	defaults   *typeexpr.Defaults
	fallback   cty.Value // of default, cty.NilVal without one
}

type validation struct {
	Condition    hcl.Expression `hcl:"condition,required"`
	ErrorMessage string         `hcl:"error_message,required"`
}

// readVariables reads the variable blocks and the values from outside.
func (s *Scope) readVariables(body hcl.Body, in *Inputs) {
	var file VariableFile
	// A default may call functions. It sees no variable, because none has a value yet.
	ctx := &hcl.EvalContext{Functions: s.functions}
	s.diags = append(s.diags, conf.DecodeBody(body, ctx, &file)...)
	known := map[string]*variable{}
	for _, v := range file.Variables {
		if known[v.Name] != nil {
			s.fault(v.At, "duplicate variable %q; expected each name once", v.Name)
			continue
		}

		if !hclsyntax.ValidIdentifier(v.Name) {
			s.fault(v.At, "the name %q of a variable is not a name of HCL; expected letters, digits, _ and -",
				v.Name)
		}

		if len(known) == structs.MaxVariables {
			s.fault(v.At, "too many variables; expected at most %d", structs.MaxVariables)
			return
		}

		known[v.Name] = v
		s.readType(v, ctx)
	}

	// The values from outside come after the types, which decide how a text is read.
	given := inputs{Scope: s, known: known}
	given.read(in)
	for _, name := range slices.Sorted(maps.Keys(known)) {
		v := known[name]
		value, found := given.values[name]
		switch {
		case found:
		case v.fallback != cty.NilVal:
			value = v.fallback
		default:
			s.fault(v.At,
				"variable %q has no value; expected a default, -var %s=..., or %s%s in the environment",
				name, name, envPrefixes[1], name)
			// What depends on it is unknown, too, and has no fault of its own.
			value = cty.DynamicVal
		}

		s.vars[name] = value
		s.validate(v, value)
	}
}

// readType reads the type and the default of a variable.
func (s *Scope) readType(v *variable, ctx *hcl.EvalContext) {
	v.constraint = cty.DynamicPseudoType
	if v.Type != nil {
		t, defaults, diags := typeexpr.TypeConstraintWithDefaults(v.Type)
		s.diags = append(s.diags, diags...)
		if !diags.HasErrors() {
			v.constraint = t
			v.defaults = defaults
		}
	}
	if v.Default == nil {
		return
	}
	v.fallback = s.converted(v, s.value(v.Default, ctx), v.Default.Range())
	// A simple default decides the type, so a value from outside needs no quotes: see isText.
	if t := v.fallback.Type(); v.Type == nil && t.IsPrimitiveType() {
		v.constraint = t
	}
}

// converted returns a value in the type of a variable.
func (s *Scope) converted(v *variable, value cty.Value, at hcl.Range) cty.Value {
	// The optional attributes of an object get their values before the conversion, which would reject the
	// object.
	if v.defaults != nil && !value.IsNull() {
		value = v.defaults.Apply(value)
	}
	out, err := convert.Convert(value, v.constraint)
	if err != nil {
		s.fault(at, "the value of variable %q is not %s: %v", v.Name,
			typeexpr.TypeString(v.constraint), err)
		return cty.DynamicVal
	}
	return out
}

// validate evaluates the validation blocks of a variable, in which only the variable has a value.
func (s *Scope) validate(v *variable, value cty.Value) {
	// Such a value has a fault already.
	if !value.IsWhollyKnown() {
		return
	}

	ctx := &hcl.EvalContext{
		Functions: s.functions,
		Variables: map[string]cty.Value{
			"var": cty.ObjectVal(map[string]cty.Value{v.Name: value}),
		},
	}

	for _, rule := range v.Validations {
		if rule.Condition == nil {
			continue // reported
		}

		at := rule.Condition.Range()
		ok, err := convert.Convert(s.value(rule.Condition, ctx), cty.Bool)
		switch {
		case err != nil || ok.IsNull():
			s.fault(at, "the condition of variable %q is not true or false", v.Name)
		case ok.IsKnown() && ok.False():
			s.fault(at, "the value of variable %q is not valid: %s", v.Name, rule.ErrorMessage)
		}
	}
}

// local is an argument of a locals block, with the locals that its expression uses.
type local struct {
	*hclsyntax.Attribute
	uses []string
}

// readLocals evaluates the arguments of locals blocks. A local may use variables and other locals, in any
// order.
func (s *Scope) readLocals(list []*local) {
	pending := map[string]bool{}
	for _, l := range list {
		pending[l.Name] = true
	}

	for len(list) > 0 {
		// A round evaluates the locals of which all others have values. One that evaluates none has found a
		// cycle.
		var later []*local
		for _, l := range list {
			waits := slices.ContainsFunc(l.uses, func(used string) bool {
				return pending[used]
			})
			if waits {
				later = append(later, l)
				continue
			}

			s.locals[l.Name] = s.value(l.Expr, s.Context())
			delete(pending, l.Name)
		}

		if len(later) == len(list) {
			for _, l := range later {
				s.fault(l.NameRange, "local %q uses itself, directly or through other locals", l.Name)
				s.locals[l.Name] = cty.DynamicVal
			}
			return
		}

		list = later
	}
}

// declareLocals returns the arguments of all locals blocks in their order.
func (s *Scope) declareLocals(blocks hclsyntax.Blocks) (list []*local) {
	seen := map[string]bool{}
	for _, b := range blocks {
		for _, in := range b.Body.Blocks {
			s.fault(in.TypeRange, "unsupported block %q; expected %s = value",
				in.Type, in.Type)
		}

		inOrder := func(a, b *hclsyntax.Attribute) int {
			return a.NameRange.Start.Byte - b.NameRange.Start.Byte
		}
		for _, a := range slices.SortedFunc(maps.Values(b.Body.Attributes), inOrder) {
			switch {
			case seen[a.Name]:
				s.fault(a.NameRange, "duplicate local %q; expected each name once", a.Name)
				continue
			case len(list) == structs.MaxVariables:
				s.fault(a.NameRange, "too many locals; expected at most %d", structs.MaxVariables)
				return list
			}

			seen[a.Name] = true
			l := &local{Attribute: a}
			// These are the names in the syntax, also of a branch that is not evaluated.
			for _, t := range a.Expr.Variables() {
				l.uses = append(l.uses, localOf(t))
			}

			list = append(list, l)
		}
	}
	return list
}

// localOf returns the name of the local that a traversal uses, "" for another one.
func localOf(t hcl.Traversal) string {
	if t.RootName() != "local" || len(t) < 2 {
		return ""
	}
	step, ok := t[1].(hcl.TraverseAttr)
	if !ok {
		return ""
	}
	return step.Name
}

// envPrefixes are the prefixes of variables in the environment. A later one overrides an earlier one.
var envPrefixes = []string{"NOMAD_VAR_", "BERTH_VAR_"}

// isText reports whether a value for the variable is a text outside a file of values, and not an expression.
func (v *variable) isText() bool {
	if v.constraint.IsPrimitiveType() {
		return true
	}
	return v.Type == nil && v.fallback == cty.NilVal
}
