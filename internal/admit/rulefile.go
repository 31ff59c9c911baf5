package admit

import (
	"berth/internal/conf"
	"berth/structs"
	"berth/structs/admission"
)

type file struct {
	Rules []*block `hcl:"rule,block"`
}

type block struct {
	Name        string   `hcl:",label"`
	Description string   `hcl:"description"`
	On          string   `hcl:"on,required"`
	Mode        string   `hcl:"mode,required"`
	Namespaces  []string `hcl:"namespaces"`
	Expression  string   `hcl:"expression,required"`
	Message     string   `hcl:"message,required"`
}

// ReadRules returns the rules of a file, at least one. A file whose name ends in .json is JSON. The error is
// of kind invalid, with the places of the faults. Which values are valid is for the servers to decide.
func ReadRules(name string, src []byte) ([]*admission.Rule, error) {
	var f file
	err := conf.Decode(name, src, &f, nil)
	if err != nil {
		return nil, err
	}
	if len(f.Rules) == 0 || len(f.Rules) > admission.MaxRules {
		return nil, structs.Invalidf("%s has %d rules; expected 1 to %d blocks of the form rule \"name\" { ... }",
			name, len(f.Rules), admission.MaxRules)
	}

	var rules []*admission.Rule
	for _, b := range f.Rules {
		rules = append(rules, &admission.Rule{
			Name:        b.Name,
			Description: b.Description,
			On:          b.On,
			Mode:        b.Mode,
			Namespaces:  b.Namespaces,
			Expression:  b.Expression,
			Message:     b.Message,
		})
	}
	return rules, nil
}
