package access

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"berth/api/show"
	"berth/cli/command"
	"berth/internal/conf"
	"berth/internal/gotext"
	"berth/structs"
	"berth/structs/access"
)

// variableSpec is the specification of a variable. In JSON it is the variable of the API.
type variableSpec struct {
	Namespace   string
	Path        string
	ModifyIndex uint64
	Items       access.VariableItems
}

// parseVariableSpec reads a specification. The error shows no value.
func parseVariableSpec(format, name string, text []byte) (*variableSpec, error) {
	switch format {
	case "json":
		var s variableSpec
		if json.Unmarshal(text, &s) != nil {
			return nil, structs.Invalidf("%s is not the JSON of a variable: an object with Path and Items, "+
				"an object of strings; -in hcl reads HCL", name)
		}
		return &s, nil
	case "hcl":
		return parseVariableHCL(name, text)
	}

	return nil, structs.Invalidf("-in is %q; expected hcl or json", structs.Cut(format, structs.MaxQuoted))
}

// parseVariableHCL reads a specification in HCL, whose values are constants.
func parseVariableHCL(name string, text []byte) (*variableSpec, error) {
	if len(text) > structs.MaxSource {
		return nil, structs.Invalidf("%s has %d bytes; at most %d are allowed", name, len(text),
			structs.MaxSource)
	}

	file, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, conf.Error(diags)
	}

	s := &variableSpec{Items: access.VariableItems{}}
	body := file.Body.(*hclsyntax.Body)
	for _, key := range slices.Sorted(maps.Keys(body.Attributes)) {
		value, err := constantText(name, body.Attributes[key])
		switch {
		case err != nil:
			return nil, err
		case key == "namespace":
			s.Namespace = value
		case key == "path":
			s.Path = value
		case key == "modify_index":
			s.ModifyIndex, err = strconv.ParseUint(value, 10, 64)
		case key != "create_index" && key != "create_time" && key != "modify_time":
			err = structs.Invalidf("%s: %s is not an argument of a variable; expected namespace, path or items",
				name, key)
		}
		if err != nil {
			return nil, err
		}
	}

	for _, block := range body.Blocks {
		if block.Type != "items" || len(block.Labels)+len(block.Body.Blocks) > 0 {
			return nil, structs.Invalidf("%s: the block %s is not one of a variable; expected items { NAME = VALUE }",
				name, block.Type)
		}
		for key, attribute := range block.Body.Attributes {
			value, err := constantText(name, attribute)
			if err != nil {
				return nil, err
			}
			s.Items[key] = value
		}
	}

	return s, nil
}

func constantText(name string, a *hclsyntax.Attribute) (string, error) {
	v, diags := a.Expr.Value(nil)
	if !diags.HasErrors() {
		text, err := convert.Convert(v, cty.String)
		if err == nil && !text.IsNull() {
			return text.AsString(), nil
		}
	}

	return "", structs.Invalidf("%s:%d: %s is not a constant text, number or boolean", name,
		a.SrcRange.Start.Line, a.Name)
}

// printVariableAs writes a variable with its values in a format of -out.
func printVariableAs(c *command.Call, format string, v *access.OpenVariable) error {
	out := c.OutcomeOutput()
	switch format {
	case "none":
		return nil
	case "json":
		return command.WriteJSON(out, v)
	case "table":
		printVariableTable(c, v)
		return nil
	case "hcl":
		_, err := fmt.Fprint(out, variableHCL(v))
		return err
	case "go-template":
		t, err := gotext.Parse("-template", c.String("template"), gotext.Config{})
		if err == nil && c.String("template") == "" {
			err = fmt.Errorf("-out go-template needs -template")
		}
		if err == nil {
			err = t.Execute(out, "-template", v)
		}
		if err != nil {
			return structs.Invalidf("the template is invalid, or does not fit the variable: %w", err)
		}
		return nil
	}

	return command.BadUsage("-out is %q; expected one of %s", format, outFlag.Value)
}

func printVariableTable(c *command.Call, v *access.OpenVariable) {
	locked := ""
	if v.Lock != nil {
		locked = "by " + v.Lock.ID + " for " + v.Lock.TTL.String()
	}

	c.Pairs(
		"Namespace", v.Namespace,
		"Path", v.Path,
		"Created", show.Nanos(v.CreateTime),
		"Check index", fmt.Sprint(v.ModifyIndex),
		"Locked", locked,
	)
	var rows command.Grid
	for name, value := range show.Sorted(v.Items) {
		rows.AddRow(name, value)
	}

	c.Section("Items", "Name|Value", rows)
}

// variableHCL writes a specification that parseVariableHCL reads.
func variableHCL(v *access.OpenVariable) string {
	text := fmt.Sprintf("namespace    = %s\npath         = %s\nmodify_index = %d\n\nitems {\n",
		quotedHCL(v.Namespace), quotedHCL(v.Path), v.ModifyIndex)
	for name, value := range show.Sorted(v.Items) {
		text += fmt.Sprintf("  %s = %s\n", name, quotedHCL(value))
	}
	return text + "}\n"
}

// quotedHCL writes a text as HCL, in which ${ and %{ begin templates.
func quotedHCL(s string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes())
}

const variableExample = `# A variable for "berth var put @spec.nv.hcl".

# Where the variable is. Arguments and options of the command replace both.
# namespace = "default"
# path      = "nomad/jobs/web"

# The values, which are encrypted. A template of a job reads them:
#   {{ with nomadVar "nomad/jobs/web" }}{{ .password }}{{ end }}
# A task reads nomad/jobs, nomad/jobs/JOB, nomad/jobs/JOB/GROUP and
# nomad/jobs/JOB/GROUP/TASK.
items {
  user     = "app"
  password = "change me"
}
`

const variableExampleJSON = `{
  "Namespace": "default",
  "Path": "nomad/jobs/web",
  "Items": {
    "user": "app",
    "password": "change me"
  }
}
`

// initVariableSpec writes the example to a new file.
func initVariableSpec(_ context.Context, c *command.Call) error {
	text := variableExample
	name := "spec.nv.hcl"
	switch c.String("out") {
	case "", "hcl":
	case "json":
		text = variableExampleJSON
		name = "spec.nv.json"
	default:
		return command.BadUsage("-out is %q; expected hcl or json", c.String("out"))
	}

	if c.Arg(0) != "" {
		name = c.Arg(0)
	}

	return c.WriteExample(name, text)
}
