package access

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"berth/api"
	accessapi "berth/api/access"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/access"
)

// VariableCommands are the verbs of berth var.
var VariableCommands = []command.Command{
	{
		Name:     "get",
		Args:     "<variable>",
		Synopsis: "Show a variable with its values",
		Help: `
Values need the certificate of an operator, or the operator socket of an agent
as the address.`,
		Renders: true,
		Flags: []command.Flag{
			{Name: "item", Kind: command.String, Value: "name", Usage: "Print the value of one item alone"},
			outFlag,
			templateFlag,
		},
		Run: getVariable,
		Examples: "berth var get app/db\n" +
			"berth var get -item password app/db\n" +
			"berth var get -out json app/db > db.json",
	},
	{
		Name:     "put",
		Args:     "<variable> [items]...",
		Synopsis: "Create or replace a variable",
		Help: `
The first argument is a path, or @FILE with a specification, or - for one from
the standard input. A specification may also follow a path. The other
arguments are items, NAME=VALUE. They replace items of the specification with
the same names. The value @FILE is read from a file, and - from the standard
input. A list of processes shows all arguments, so give secrets in files.

If a specification has a ModifyIndex, the variable is written only if that is
still its index.`,
		Acts: true,
		Flags: []command.Flag{
			checkIndexFlag,
			{Name: "force", Usage: "Write whatever the index of the variable is"},
			inFlag,
			outFlag,
			templateFlag,
		},
		Run: putVariable,
		Examples: "berth var put app/db user=app password=@password.txt\n" +
			"berth var put @spec.nv.hcl\n" +
			"berth var get -out json app/db | berth var put -in json - user=other",
	},
	{
		Name:     "list",
		Args:     "[prefix]",
		Synopsis: "List variables without their values",
		Renders:  true,
		Flags:    command.PageFlags,
		Run:      listVariables,
		Examples: "berth var list\n" +
			"berth var list nomad/jobs/web",
	},
	{
		Name:     "purge",
		Args:     "<variable>",
		Synopsis: "Delete a variable",
		Acts:     true,
		Flags:    []command.Flag{checkIndexFlag},
		Run:      purgeVariable,
		Examples: "berth var purge app/db\n" +
			"berth var purge -check-index 42 app/db",
	},
	{
		Name:     "init",
		Args:     "[file]",
		Synopsis: "Write an example of a specification (spec.nv.hcl)",
		Local:    true,
		Flags: []command.Flag{{
			Name:    "out",
			Kind:    command.String,
			Value:   "hcl|json",
			Default: "hcl",
			Usage:   "The format of the file",
		}},
		Run: initVariableSpec,
		Examples: "berth var init\n" +
			"berth var init -out json spec.nv.json",
	},
	lockCommand,
}

var (
	checkIndexFlag = command.Flag{
		Name:  "check-index",
		Kind:  command.Number,
		Value: "index",
		Usage: "Act only if this is the index of the variable; 0: only if there is none",
	}

	inFlag = command.Flag{
		Name:    "in",
		Kind:    command.String,
		Value:   "hcl|json",
		Default: "json, or hcl for a file whose name ends in .hcl",
		Usage:   "The format of the specification",
	}

	outFlag = command.Flag{
		Name:  "out",
		Kind:  command.String,
		Value: "go-template|hcl|json|none|table",
		Usage: "The format of the output, with values. Default: table to show a variable, none to write one",
	}

	templateFlag = command.Flag{
		Name:  "template",
		Kind:  command.String,
		Value: "template",
		Usage: "The Go template of -out go-template",
	}
)

// getVariable writes one item as it is, without a line break: a script may read a file of any content.
func getVariable(ctx context.Context, c *command.Call) error {
	v, _, err := accessapi.Variable(ctx, c.API, c.Arg(0), nil)
	if err != nil {
		return c.DidYouMean(ctx, "variable", c.Arg(0), err)
	}

	item := c.String("item")
	if item != "" {
		value, ok := v.Items[item]
		if !ok {
			return structs.NotFoundf("the variable %q has no item %q", v.Path, item)
		}
		_, err = fmt.Fprint(c.OutcomeOutput(), value)
		return err
	}

	if c.Given("out") {
		return printVariableAs(c, c.String("out"), v)
	}

	return c.Show(v, func() error { return printVariableAs(c, "table", v) })
}

var variableSheet = command.Sheet[*access.VariableMetadata]{
	Titles: "Namespace|Path|Index|Last updated",
	Row: func(_ *command.Call, v *access.VariableMetadata) []string {
		return []string{v.Namespace, v.Path, fmt.Sprint(v.ModifyIndex), show.Nanos(v.ModifyTime)}
	},
	Order: func(a, b *access.VariableMetadata) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Path, b.Path))
	},
}

// listVariables shows a page of paths. The values of items are not in it.
func listVariables(ctx context.Context, c *command.Call) error {
	q := c.Page()
	q.Prefix = c.Arg(0)
	all, meta, err := accessapi.Variables(ctx, c.API, q)
	err = c.CheckFound(ctx, len(all), err)
	if err != nil {
		return err
	}

	return c.Show(all, func() error {
		variableSheet.Print(c, "variable", all)
		c.PrintNextPage(meta)
		return nil
	})
}

// purgeVariable deletes a variable as it is now, or as -check-index names it. A change in between is a
// conflict.
func purgeVariable(ctx context.Context, c *command.Call) (err error) {
	path := c.Arg(0)
	w := accessapi.VariableWrite{Op: access.VariableDelete, Path: path}
	if c.Given("check-index") {
		index := uint64(c.Number("check-index"))
		w.CheckIndex = &index
	} else {
		w.CheckIndex, err = checkedIndex(ctx, c, path)
	}
	if err != nil {
		return err
	}

	_, err = accessapi.WriteVariable(ctx, c.API, w)
	if err != nil {
		return err
	}

	return c.Report(command.Changed{"Path": path}, "Variable %q is deleted", path)
}

// checkedIndex returns the index of a variable without reading its values, nil if the caller sees none.
func checkedIndex(ctx context.Context, c *command.Call, path string) (*uint64, error) {
	// It comes before those below it.
	all, _, err := accessapi.Variables(ctx, c.API, &api.Query{Prefix: path, PerPage: 1})
	if err != nil && !structs.IsKind(err, structs.KindDenied) {
		return nil, err
	}
	for _, v := range all {
		if v.Path == path {
			return &v.ModifyIndex, nil
		}
	}
	return nil, nil
}
