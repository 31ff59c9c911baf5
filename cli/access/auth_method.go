package access

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	accessapi "berth/api/access"
	"berth/api/show"
	"berth/cli/command"
	"berth/structs/access"
)

var methodCommands = []command.Command{
	{
		Name:     "create",
		Synopsis: "Create an auth method: a way to log in",
		Help: `
The configuration is an object of JSON in a file; "-" is the standard input.
Its secrets are stored encrypted, and never shown again.`,
		Acts:  true,
		Flags: methodFlags,
		Run:   methodCreate,
		Examples: "berth acl auth-method create -name ci -type JWT -max-token-ttl 1h -config f\n" +
			"berth acl auth-method create -name corp -type OIDC -max-token-ttl 8h -config -",
	},
	{
		Name:     "update",
		Args:     "<name>",
		Synopsis: "Change an auth method",
		Help: `
Options that are not given leave their part as it is. A new configuration
replaces the former one; secrets that it leaves out, or that it has as
"redacted", stay as they are.`,
		Acts:     true,
		Flags:    methodFlags[1:],
		Run:      methodUpdate,
		Examples: "berth acl auth-method update -max-token-ttl 4h corp",
	},
	{
		Name:     "delete",
		Args:     "<name>",
		Synopsis: "Delete an auth method with its binding rules",
		Help: `
Tokens of its logins stay until their ends: berth acl token list.`,
		Acts: true,
		Run: func(ctx context.Context, c *command.Call) error {
			seen, err := accessapi.AuthMethod(ctx, c.API, c.Arg(0))
			on, err := c.On(seen, err)
			if err != nil {
				return err
			}
			err = accessapi.DeleteAuthMethod(ctx, on, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Report(command.Changed{"Name": c.Arg(0)}, "Auth method %q is deleted", c.Arg(0))
		},
		Examples: "berth acl auth-method delete corp",
	},
	{
		Name:     "info",
		Args:     "<name>",
		Synopsis: "Show an auth method, without its secrets",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			m, err := accessapi.AuthMethod(ctx, c.API, c.Arg(0))
			if err != nil {
				return err
			}
			return c.Show(m, func() error { return printMethod(c, m) })
		},
		Examples: "berth acl auth-method info corp",
	},
	{
		Name:     "list",
		Synopsis: "List the auth methods",
		Renders:  true,
		Run: func(ctx context.Context, c *command.Call) error {
			all, _, err := accessapi.AuthMethods(ctx, c.API, nil)
			if err != nil {
				return err
			}
			return methodSheet.List(c, "auth method", all)
		},
		Examples: "berth acl auth-method list",
	},
}

var methodFlags = []command.Flag{
	{Name: "name", Kind: command.String, Value: "name", Usage: "The name, which no other auth method has"},
	{Name: "type", Kind: command.String, Value: "OIDC|JWT", Usage: "How a caller logs in"},
	{
		Name:  "max-token-ttl",
		Kind:  command.Duration,
		Value: "duration",
		Usage: "How long a token of a login lives",
	},
	{
		Name:  "token-locality",
		Kind:  command.String,
		Value: "local|global",
		Usage: "For tools of the dialect; it has no effect. Default: local",
	},
	{
		Name:  "token-name-format",
		Kind:  command.String,
		Value: "format",
		Usage: "The names of tokens. Default: " + access.DefaultNameFormat,
	},
	{Name: "default", Usage: "Take this method for logins of its type that name none"},
	{Name: "config", Kind: command.String, Value: "file", Usage: "The configuration; \"@\" may precede the file"},
	command.NoColorFlag,
}

var methodSheet = command.Sheet[*access.AuthMethodStub]{
	Titles: "Name|Type|Default",
	Row: func(_ *command.Call, m *access.AuthMethodStub) []string {
		return []string{m.Name, m.Type, yesNo(m.Default)}
	},
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func methodCreate(ctx context.Context, c *command.Call) error {
	for _, name := range []string{"name", "type", "max-token-ttl", "config"} {
		if !c.Given(name) {
			return command.BadUsage("-name, -type, -max-token-ttl and -config are needed")
		}
	}

	m, err := changedMethod(c, &access.AuthMethod{Name: c.String("name"), TokenLocality: access.LocalityLocal})
	if err != nil {
		return err
	}
	stored, err := accessapi.CreateAuthMethod(ctx, c.API, m)
	if err != nil {
		return err
	}
	return printWritten(c, stored)
}

func methodUpdate(ctx context.Context, c *command.Call) error {
	former, err := accessapi.AuthMethod(ctx, c.API, c.Arg(0))
	if err != nil {
		return err
	}
	m, err := changedMethod(c, former)
	if err != nil {
		return err
	}
	stored, err := accessapi.UpdateAuthMethod(ctx, c.API, m)
	if err != nil {
		return err
	}
	return printWritten(c, stored)
}

func printWritten(c *command.Call, m *access.AuthMethod) error {
	err := printMethod(c, m)
	if err != nil {
		return err
	}
	return c.WriteOutcome(m)
}

// changedMethod sets the parts that options give.
func changedMethod(c *command.Call, m *access.AuthMethod) (*access.AuthMethod, error) {
	if c.Given("type") {
		m.Type = c.String("type")
	}
	if c.Given("max-token-ttl") {
		m.MaxTokenTTL = access.Duration(c.Duration("max-token-ttl"))
	}
	if c.Given("token-locality") {
		m.TokenLocality = c.String("token-locality")
	}
	if c.Given("token-name-format") {
		m.TokenNameFormat = c.String("token-name-format")
	}
	if c.Given("default") {
		m.Default = c.Bool("default")
	}
	if !c.Given("config") {
		return m, nil
	}

	// Everybody on the machine could read a configuration on the command line.
	if strings.HasPrefix(strings.TrimSpace(c.String("config")), "{") {
		return nil, command.BadUsage("-config is a file, or \"-\" for the standard input: a command line may not have secrets")
	}
	text, err := c.ReadFile(strings.TrimPrefix(c.String("config"), "@"))
	if err != nil {
		return nil, err
	}
	m.Config = &access.AuthConfig{}
	err = json.Unmarshal(text, m.Config)
	if err != nil {
		return nil, command.BadUsage("%s is no configuration in JSON: %v",
			command.ShownName(c.String("config")), err)
	}
	return m, nil
}

func printMethod(c *command.Call, m *access.AuthMethod) error {
	c.Pairs(
		"Name", m.Name,
		"Type", m.Type,
		"Token locality", m.TokenLocality,
		"Token TTL", m.MaxTokenTTL.String(),
		"Token name", m.TokenNameFormat,
		"Default", yesNo(m.Default),
		"Changed", show.Time(unixTime(int64(m.ModifyTime))),
	)
	if m.Config == nil {
		return nil
	}

	text, err := json.Marshal(m.Config)
	if err != nil {
		return err
	}
	var all map[string]any
	err = json.Unmarshal(text, &all)
	if err != nil {
		return err
	}
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil || v == "" || v == false })
	c.Printf("\nConfiguration\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value, err := json.Marshal(all[name])
		if err != nil {
			return err
		}
		c.Printf("%s = %s\n", name, value)
	}
	return nil
}
