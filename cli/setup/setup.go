// Package setup has the commands that prepare other systems for the logins of workloads.
package setup

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"strings"
	"time"

	accessapi "berth/api/access"
	"berth/api/show"
	"berth/cli/command"
	"berth/consul/setup"
	"berth/internal/setupstep"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate"
)

const (
	keysPath = "/.well-known/jwks.json"
	// patience bounds a request to Consul, which reads the keys of the cluster meanwhile.
	patience = 30 * time.Second
	// exitOpen is the exit code of -check if something is to be done.
	exitOpen = 1
)

const consulHelp = `
Services and tasks log in at Consul with the identities that the servers sign,
and get a token with their own rights. The command makes what Consul needs for
that: the auth method nomad-workloads, which verifies identities by the public
keys of the cluster; the rule that a service may register itself; the rule
that a task has the role of its namespace; and this role with a policy for the
namespace of -namespace. Without -policy-file the policy lets tasks read the
services of Consul, but no keys. Run the command again for other namespaces.

It shows what it will do, and asks. A second run changes nothing. It changes
and deletes only what it has made itself, as the descriptions in Consul say.
Rights that you give its roles and policies afterwards stay.

Consul must have ACLs, and CONSUL_HTTP_TOKEN a token with acl = "write". The
command also reads CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_AUTH, CONSUL_HTTP_SSL,
CONSUL_HTTP_SSL_VERIFY, CONSUL_CACERT, CONSUL_CAPATH, CONSUL_CLIENT_CERT,
CONSUL_CLIENT_KEY and CONSUL_TLS_SERVER_NAME.`

// Commands are the commands below berth setup.
var Commands = []command.Command{
	{
		Name:     "consul",
		Synopsis: "Make what the logins of services and tasks need in Consul",
		Help:     consulHelp,
		Acts:     true,
		Flags: []command.Flag{
			{
				Name:  "consul-address",
				Kind:  command.String,
				Value: "address",
				Usage: "Consul: host:port, a URL or unix:///path. Default: CONSUL_HTTP_ADDR, else localhost:8500",
			},
			{
				Name:  "jwks-url",
				Kind:  command.String,
				Value: "url",
				Usage: "Where Consul's servers read the public keys of the cluster. Default: what is set already, " +
					"else below server.oidc_issuer, else " + keysPath + " of the agent",
			},
			{
				Name:  "jwks-ca-file",
				Kind:  command.String,
				Value: "file",
				Usage: "The authority of -jwks-url, in PEM, for Consul. Default: what is set already",
			},
			{
				Name:  "policy-file",
				Kind:  command.String,
				Value: "file",
				Usage: "The rules of the policy of tasks, in Consul's HCL. Default: those that it has, else services to read",
			},
			{Name: "check", Usage: "Show what is to be done, and end with 1 if that is something"},
			{Name: "destroy", Usage: "Delete all that the command has made, for all namespaces"},
			{Name: "y", Usage: "Do not ask"},
			command.NoColorFlag,
		},
		Run: setUpConsul,
		Examples: "berth setup consul -jwks-url https://b1.example.com:4746" + keysPath + "\n" +
			"berth setup consul -namespace prod -policy-file tasks.hcl -y\n" +
			"berth setup consul -check\n" +
			"berth setup consul -destroy",
	},
	vaultCommand,
}

// outcome is the answer with -json.
type outcome struct {
	Consul string            // its address
	Steps  []*setupstep.Step // that are done, or with -check would be
}

func setUpConsul(ctx context.Context, c *command.Call) error {
	consul, err := setup.Open(c.String("consul-address"))
	if err != nil {
		return err
	}
	steps, err := plan(ctx, c, consul)
	if err != nil {
		return err
	}

	return carryOut(ctx, c, proposal{
		place:   "Consul at " + consul.Address(),
		steps:   steps,
		outcome: outcome{Consul: consul.Address(), Steps: steps},
		next:    printNextStep,
	})
}

// proposal is what a command is about to do.
type proposal struct {
	place   string // the other system, with its address
	steps   []*setupstep.Step
	outcome any // the answer with -json
	next    func(*command.Call)
}

// carryOut shows the steps, asks, and applies them, as the options say.
func carryOut(ctx context.Context, c *command.Call, p proposal) error {
	printProposal(c, p)
	changes := setupstep.Changes(p.steps)
	switch {
	case changes == 0:
		return c.Report(p.outcome, "Nothing is to be done.")
	case c.Bool("check"):
		err := c.Report(p.outcome, "Without -check, %s would be made, changed or deleted.",
			show.Plural(changes, "object"))
		return cmp.Or[error](err, command.ExitError(exitOpen))
	case !c.Bool("y"):
		err := command.Confirm(c, "Go on", "-y")
		if err != nil {
			return err
		}
	}

	err := apply(ctx, c, p.steps)
	if err != nil {
		return err
	}
	if !c.Bool("destroy") {
		p.next(c)
	}
	return c.WriteOutcome(p.outcome)
}

// plan returns the steps that the options ask for.
func plan(ctx context.Context, c *command.Call, consul *setup.Client) ([]*setupstep.Step, error) {
	if c.Bool("destroy") {
		err := checkDestroy(c)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return consul.PlanRemoval(ctx)
	}

	w, err := wanted(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return consul.Plan(ctx, w)
}

// checkDestroy rejects options that describe what -destroy deletes.
func checkDestroy(c *command.Call) error {
	for _, name := range []string{"jwks-url", "jwks-ca-file", "policy-file"} {
		if c.Given(name) {
			return command.BadUsage("-destroy and -%s exclude each other", name)
		}
	}
	return nil
}

// wanted reads the options.
func wanted(c *command.Call) (*setup.Wanted, error) {
	w := &setup.Wanted{
		Namespace:  cmp.Or(c.Namespace(), structs.DefaultNamespace),
		JWKSURL:    c.String("jwks-url"),
		DefaultURL: func(ctx context.Context) (string, error) { return defaultURL(ctx, c, "Consul") },
	}
	err := validate.Namespace(&cluster.Namespace{Name: w.Namespace})
	if err != nil {
		return nil, command.BadUsage("-namespace names one namespace, whose tasks get a role: %v", err)
	}

	return w, readOptions(c, map[string]*string{"jwks-ca-file": &w.JWKSCA, "policy-file": &w.Rules})
}

// readOptions checks -jwks-url, and reads the files that options name.
func readOptions(c *command.Call, files map[string]*string) error {
	u, err := url.Parse(c.String("jwks-url"))
	if c.Given("jwks-url") && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return command.BadUsage("-jwks-url is %q; expected a URL that begins with http:// or https://",
			structs.Cut(c.String("jwks-url"), structs.MaxQuoted))
	}

	for name, text := range files {
		if !c.Given(name) {
			continue
		}
		read, err := c.ReadFile(c.String(name))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(read)) == "" {
			return structs.Invalidf("the file of -%s, %s, is empty", name, c.String(name))
		}
		*text = string(read)
	}
	return nil
}

// defaultURL returns the URL of the public keys for another system: the one that the servers name, or else
// the agent's.
func defaultURL(ctx context.Context, c *command.Call, system string) (string, error) {
	found, err := accessapi.Discover(ctx, c.API)
	if err == nil {
		return found.KeysURL, nil
	}
	if !structs.IsKind(err, structs.KindNotFound) {
		return "", err
	}

	agent, err := url.Parse(c.API.Address())
	if err != nil || agent.Scheme != "http" && agent.Scheme != "https" {
		return "", command.BadUsage("%s cannot reach the agent at %s; name the URL at which it can read the "+
			"keys by -jwks-url, such as https://b1.example.com:4746%s", system, c.API.Address(), keysPath)
	}

	host := agent.Hostname()
	ip := net.ParseIP(host)
	if host == "localhost" || ip != nil && ip.IsLoopback() {
		c.Printf("The agent's address %s is one of this machine alone. If a server of %s runs on another "+
			"one, name an address for all by -jwks-url.\n\n", agent.Host, system)
	}
	return (&url.URL{Scheme: agent.Scheme, Host: agent.Host, Path: keysPath}).String(), nil
}

func printProposal(c *command.Call, p proposal) {
	c.Printf("%s\n\n", p.place)
	if len(p.steps) == 0 {
		return
	}
	var rows command.Grid
	for _, s := range p.steps {
		rows.AddRow(string(s.Action), s.Kind, s.Name, s.Detail)
	}
	c.Table("Action|Kind|Name|Detail", rows)
	c.Printf("\n")
}

var done = map[setupstep.Action]string{
	setupstep.Create: "Created",
	setupstep.Change: "Changed",
	setupstep.Delete: "Deleted",
}

// apply carries the steps out, in their order, up to the first error.
func apply(ctx context.Context, c *command.Call, steps []*setupstep.Step) error {
	for _, s := range steps {
		if s.Action == setupstep.Keep {
			continue
		}
		err := applyOne(ctx, s)
		if err != nil {
			c.Printf("The steps before the error stay done. Run the command again after the remedy.\n")
			return err
		}
		c.Printf("%s the %s %s\n", done[s.Action], s.Kind, s.Name)
	}
	return nil
}

func applyOne(ctx context.Context, s *setupstep.Step) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.Apply(ctx)
}

func printNextStep(c *command.Call) {
	c.Printf("\nJobs that are registered from then on log in, once all servers of berth have this in their\n"+
		"configuration and have been restarted:\n\n"+
		"  consul {\n"+
		"    service_identity { aud = [%q] }\n"+
		"    task_identity    { aud = [%q] }\n"+
		"  }\n", setup.Audience, setup.Audience)
}
