package access

import (
	"context"
	"fmt"
	"strings"

	accessapi "berth/api/access"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/access"
)

// putVariable writes the variable that the arguments and a specification describe.
func putVariable(ctx context.Context, c *command.Call) error {
	s, rest, err := readVariableSpec(c, c.Args)
	if err != nil {
		return err
	}

	c.Args = c.Args[:len(c.Args)-len(rest)] // an error may name the command
	for _, arg := range rest {
		err = s.addItem(c, arg)
		if err != nil {
			return err
		}
		name, value, _ := strings.Cut(arg, "=")
		if !strings.HasPrefix(value, "@") {
			value = "-"
		}
		c.Args = append(c.Args, name+"="+value)
	}

	w := accessapi.VariableWrite{Op: access.VariableSet, Namespace: s.Namespace, Path: s.Path, Items: s.Items}
	switch {
	case c.Bool("force"):
	case c.Given("check-index"):
		index := uint64(c.Number("check-index"))
		w.CheckIndex = &index
	case s.ModifyIndex > 0:
		w.CheckIndex = &s.ModifyIndex
	}

	v, err := accessapi.WriteVariable(ctx, c.API, w)
	if err != nil {
		return err
	}

	format := c.String("out")
	if format != "" && format != "none" {
		return printVariableAs(c, format, v)
	}

	done := "replaced"
	if v.CreateIndex == v.ModifyIndex {
		done = "created"
	}

	return c.Report(v.VariableMetadata, "Variable %q is %s; its index is %d", v.Path, done, v.ModifyIndex)
}

// readVariableSpec reads the path and the specification that the first arguments name. It returns the other
// arguments.
func readVariableSpec(c *command.Call, args []string) (s *variableSpec, rest []string, err error) {
	s = &variableSpec{}
	path := ""
	if args[0] != "-" && !strings.HasPrefix(args[0], "@") {
		path = args[0]
		args = args[1:]
	}

	if len(args) > 0 && (args[0] == "-" || strings.HasPrefix(args[0], "@")) {
		s, err = loadVariableSpec(c, args[0])
		args = args[1:]
	}
	if err != nil {
		return nil, nil, err
	}

	if path != "" {
		s.Path = path
	}

	if ns := c.Namespace(); ns != "" {
		s.Namespace = ns
	}

	if s.Path == "" {
		return nil, nil, structs.Invalidf("the specification names no path; name one before it")
	}

	return s, args, nil
}

// loadVariableSpec reads a specification: @FILE, or - for the standard input.
func loadVariableSpec(c *command.Call, from string) (*variableSpec, error) {
	name := strings.TrimPrefix(from, "@")
	text, err := c.ReadFile(name)
	if err != nil {
		return nil, err
	}

	format := "json"
	switch {
	case c.Given("in"):
		format = c.String("in")
	case strings.HasSuffix(name, ".hcl"):
		format = "hcl"
	}

	return parseVariableSpec(format, command.ShownName(name), text)
}

// addItem adds an item of the command line: NAME=VALUE, NAME=@FILE or NAME=-.
func (s *variableSpec) addItem(c *command.Call, arg string) (err error) {
	name, value, ok := strings.Cut(arg, "=")
	if !ok || name == "" {
		return command.BadUsage("an argument is not of the form NAME=VALUE")
	}

	file, isFile := strings.CutPrefix(value, "@")
	if isFile || value == "-" {
		var text []byte
		text, err = c.ReadFile(file)
		if err != nil {
			return fmt.Errorf("the item %s: %w", name, err)
		}
		value = string(text)
	}

	if s.Items == nil {
		s.Items = access.VariableItems{}
	}

	s.Items[name] = value
	return nil
}
