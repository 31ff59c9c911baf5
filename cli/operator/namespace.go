package operator

import (
	"context"
	"os"

	"berth/api/operator"
	"berth/api/show"
	"berth/cli/command"
	"berth/jobspec"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// NamespaceCommands are the verbs of berth namespace.
var NamespaceCommands = []command.Command{
	{
		Name:     "apply",
		Args:     "<namespace>",
		Synopsis: "Create or change a namespace",
		Help: `
The argument is the name of a namespace, or a file with its definition: HCL,
or the JSON that "berth namespace inspect" writes. "-" is the standard input.
A file replaces the whole definition. With a name the command creates a
definition if the namespace has none, and otherwise changes only what the
options say.`,
		Acts:  true,
		Flags: []command.Flag{descriptionFlag, quotaFlag},
		Run:   namespaceApply,
		Examples: "berth namespace apply prod\n" +
			"berth namespace apply -description Production prod\n" +
			"berth namespace apply -quota team prod\n" +
			"berth namespace apply prod.hcl",
	},
	{
		Name:     "delete",
		Args:     "<namespace>",
		Synopsis: "Delete a namespace that has no volumes and no live jobs",
		Acts:     true,
		Run: func(ctx context.Context, c *command.Call) error {
			name := c.Arg(0)
			seen, _, err := operator.GetNamespace(ctx, c.API, name, nil)
			on, err := c.On(seen, err)
			if err != nil {
				return err
			}
			err = operator.DeleteNamespace(ctx, on, name)
			if err != nil {
				return c.DidYouMean(ctx, "namespace", name, err)
			}
			return c.Report(command.Changed{"Namespace": name}, "Namespace %q is deleted", name)
		},
		Examples: "berth namespace delete prod",
	},
	{
		Name:     "inspect",
		Args:     "<namespace>",
		Synopsis: "Show the definition of a namespace in the JSON of the API",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			n, err := findNamespace(ctx, c)
			if err != nil {
				return err
			}
			return c.Show(n, func() error { return command.WriteJSON(c.Out, n) })
		},
		Examples: "berth namespace inspect prod > prod.json",
	},
	{
		Name:     "list",
		Synopsis: "List the namespaces",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			all, _, err := operator.ListNamespaces(ctx, c.API, nil)
			if err != nil {
				return err
			}
			return namespaceSheet.List(c, "namespace", all)
		},
		Examples: "berth namespace list",
	},
	{
		Name:     "status",
		Args:     "<namespace>",
		Synopsis: "Show a namespace",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			n, err := findNamespace(ctx, c)
			if err != nil {
				return err
			}
			return c.Show(n, func() error {
				printNamespace(c, n)
				return nil
			})
		},
		Examples: "berth namespace status prod",
	},
}

var descriptionFlag = command.Flag{
	Name:  "description",
	Kind:  command.String,
	Value: "text",
	Usage: "The description",
}

var quotaFlag = command.Flag{
	Name:  "quota",
	Kind:  command.String,
	Value: "quota",
	Usage: "The quota that bounds the namespace, \"\" for none",
}

var namespaceSheet = command.Sheet[*cluster.Namespace]{
	Titles: "Name|Description",
	Row: func(_ *command.Call, n *cluster.Namespace) []string {
		return []string{n.Name, n.Description}
	},
}

// findNamespace reads the namespace that the argument names.
func findNamespace(ctx context.Context, c *command.Call) (*cluster.Namespace, error) {
	n, _, err := operator.GetNamespace(ctx, c.API, c.Arg(0), nil)
	if err != nil {
		return nil, c.DidYouMean(ctx, "namespace", c.Arg(0), err)
	}
	return n, nil
}

func printNamespace(c *command.Call, n *cluster.Namespace) {
	pairs := []string{
		"Name", n.Name,
		"Description", n.Description,
	}

	if n.Quota != "" {
		pairs = append(pairs, "Quota", n.Quota)
	}

	if can := n.Capabilities; can != nil {
		pairs = append(pairs,
			"Enabled drivers", show.JoinComma(can.EnabledTaskDrivers...),
			"Disabled drivers", show.JoinComma(can.DisabledTaskDrivers...))
	}

	c.Pairs(pairs...)
	command.PrintMeta(c, n.Meta)
}

// namespaceApply makes or replaces a namespace, by its name or by a file.
func namespaceApply(ctx context.Context, c *command.Call) error {
	n, err := namespaceToApply(ctx, c)
	if err != nil {
		return err
	}

	err = operator.PutNamespace(ctx, c.API, n)
	if err != nil {
		return err
	}

	return c.Report(command.Changed{"Namespace": n.Name}, "Namespace %q is applied", n.Name)
}

// namespaceToApply returns the definition of the file that the argument names. If it names no file, it is the
// name of a namespace, and the options change what is stored.
func namespaceToApply(ctx context.Context, c *command.Call) (*cluster.Namespace, error) {
	arg := c.Arg(0)
	if isFile(arg) {
		for _, option := range []string{"description", "quota"} {
			if c.Given(option) {
				return nil, command.BadUsage("-%s is for a name; the definition of %q is in the file",
					option, arg)
			}
		}
		return command.ReadDefinition(c, operator.DecodeNamespace, jobspec.ReadNamespace, validate.Namespace)
	}

	stored, _, err := operator.GetNamespace(ctx, c.API, arg, nil)
	switch {
	case structs.IsKind(err, structs.KindNotFound):
		stored = &cluster.Namespace{Name: arg}
	case err != nil:
		return nil, err
	}

	if c.Given("description") {
		stored.Description = c.String("description")
	}

	if c.Given("quota") {
		stored.Quota = c.String("quota")
	}

	return stored, nil
}

// isFile reports whether an argument is a file, or the standard input.
func isFile(arg string) bool {
	info, err := os.Stat(arg)
	return arg == "-" || err == nil && !info.IsDir()
}
