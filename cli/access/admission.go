package access

import (
	"context"
	"fmt"
	"strings"

	accessapi "berth/api/access"
	"berth/cli/command"
	"berth/cli/job"
	"berth/cli/volume"
	"berth/internal/admit"
	"berth/structs"
	"berth/structs/admission"
)

// AdmissionCommands are the verbs of berth admission.
var AdmissionCommands = []command.Command{
	{
		Name:     "apply",
		Args:     "<file>",
		Synopsis: "Create or replace the rules of a file",
		Help: `
The file has blocks rule "name" in HCL, or the same in JSON if its name ends
in .json; "-" is the standard input. The servers compile each expression
before they store the rule, and a fault has its line and its column in the
expression. Rules before the fault are stored. Rules that are not in the file
stay as they are.`,
		Acts:     true,
		Run:      applyRules,
		Examples: "berth admission apply rules.hcl",
	},
	{
		Name:     "delete",
		Args:     "<name>",
		Synopsis: "Delete a rule",
		Acts:     true,
		Run: func(ctx context.Context, c *command.Call) error {
			seen, err := accessapi.AdmissionRule(ctx, c.API, c.Arg(0))
			on, err := c.On(seen, err)
			if err != nil {
				return err
			}
			err = accessapi.DeleteAdmissionRule(ctx, on, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Report(command.Changed{"Name": c.Arg(0)}, "Admission rule %q is deleted", c.Arg(0))
		},
		Examples: "berth admission delete images",
	},
	{
		Name:     "info",
		Args:     "<name>",
		Synopsis: "Show a rule with its expression",
		Renders:  true,
		Run:      ruleInfo,
		Examples: "berth admission info images",
	},
	{
		Name:     "list",
		Synopsis: "List the rules",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			all, _, err := accessapi.AdmissionRules(ctx, c.API, nil)
			if err != nil {
				return err
			}
			return admissionSheet.List(c, "admission rule", all)
		},
		Examples: "berth admission list",
	},
	{
		Name:     "test",
		Args:     "<rule> <file>",
		Synopsis: "Evaluate a rule on a job or a volume, and store nothing",
		Help: `
The rule is the name of a stored one, or a file with one rule: a name with a
dot or a slash is a file. The second file is that of a job or of a volume, as
the rule says. The exit code is 3 if the rule denies it.`,
		Renders: true,
		Flags:   job.FileFlags,
		Run:     testRules,
		Examples: "berth admission test images web.hcl\n" +
			"berth admission test ./new-rule.hcl web.hcl",
	},
}

var admissionSheet = command.Sheet[*admission.Rule]{
	Titles: "Name|On|Mode|Namespaces|Description",
	Row: func(_ *command.Call, r *admission.Rule) []string {
		return []string{r.Name, r.On, r.Mode, ruleNamespaces(r), r.Description}
	},
}

func ruleNamespaces(r *admission.Rule) string {
	if len(r.Namespaces) == 0 {
		return "*"
	}
	return strings.Join(r.Namespaces, ", ")
}

// readAdmissionRules reads a file of rules.
func readAdmissionRules(c *command.Call, name string) ([]*admission.Rule, error) {
	text, err := c.ReadFile(name)
	if err != nil {
		return nil, err
	}
	name = command.ShownName(name)
	rules, err := admit.ReadRules(name, text)
	if err != nil {
		return nil, command.InFiles(map[string][]byte{name: text}, err)
	}
	return rules, nil
}

func applyRules(ctx context.Context, c *command.Call) error {
	rules, err := readAdmissionRules(c, c.Arg(0))
	if err != nil {
		return err
	}

	var names []string
	for _, r := range rules {
		err = accessapi.PutAdmissionRule(ctx, c.API, r)
		if err != nil {
			return fmt.Errorf("%d of %d rules are stored: %w", len(names), len(rules), err)
		}
		names = append(names, r.Name)
	}
	stored := strings.Join(names, ", ")
	return c.Report(command.Changed{"Names": stored}, "Stored: %s", stored)
}

func ruleInfo(ctx context.Context, c *command.Call) error {
	r, err := accessapi.AdmissionRule(ctx, c.API, c.Arg(0))
	if err != nil {
		return err
	}
	return c.Show(r, func() error {
		c.Pairs(
			"Name", r.Name,
			"Description", r.Description,
			"On", r.On,
			"Mode", r.Mode,
			"Namespaces", ruleNamespaces(r),
			"Message", r.Message,
		)
		c.Printf("\n%s\n", strings.TrimSpace(r.Expression))
		return nil
	})
}

func testRules(ctx context.Context, c *command.Call) error {
	t, err := newRuleTest(ctx, c)
	if err != nil {
		return err
	}

	outcome, err := accessapi.TryAdmissionRule(ctx, c.API, t)
	if err != nil {
		return err
	}
	err = c.Show(outcome, func() error {
		printTestOutcome(c, outcome)
		return nil
	})
	if err == nil && !outcome.Admitted {
		err = structs.Deniedf("%s", outcome.Message)
	}
	return err
}

func printTestOutcome(c *command.Call, o *admission.RuleTestResponse) {
	switch {
	case !o.Applies:
		c.Printf("Admission rule %q is not about this namespace\n", o.Rule)
	case o.Message == "":
		c.Printf("Admission rule %q admits it, at a cost of %d steps\n", o.Rule, o.Cost)
	case o.Admitted:
		c.Printf("Warning: %s\n", o.Message)
	}
}

// newRuleTest reads the rule and the object of a test.
func newRuleTest(ctx context.Context, c *command.Call) (*accessapi.AdmissionTest, error) {
	t := &accessapi.AdmissionTest{Name: c.Arg(0)}
	rule, err := namedRule(ctx, c)
	if err != nil {
		return nil, err
	}
	if isRuleFile(c.Arg(0)) {
		t.Rule = rule
	}

	if rule.On == admission.OnVolume {
		t.Volume, err = volume.ReadFile(c, c.Arg(1))
	} else {
		t.Job, err = job.ReadFile(c, c.Arg(1))
	}
	return t, err
}

func namedRule(ctx context.Context, c *command.Call) (*admission.Rule, error) {
	if !isRuleFile(c.Arg(0)) {
		return accessapi.AdmissionRule(ctx, c.API, c.Arg(0))
	}

	rules, err := readAdmissionRules(c, c.Arg(0))
	if err == nil && len(rules) != 1 {
		err = structs.Invalidf("%s has %d rules; expected one to test", c.Arg(0), len(rules))
	}
	if err != nil {
		return nil, err
	}
	return rules[0], nil
}

// isRuleFile reports whether an argument names a file. No name of a rule has a dot or a slash.
func isRuleFile(arg string) bool { return arg == "-" || strings.ContainsAny(arg, "./") }
