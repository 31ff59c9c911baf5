package setup

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"strings"

	"berth/cli/command"
	"berth/internal/setupstep"
	"berth/structs"
	"berth/vault"
	"berth/vault/setup"
)

// localVault is the address of Vault without another one, as for Vault's own command line.
const localVault = "https://127.0.0.1:8200"

const vaultHelp = `
Tasks log in at Vault or OpenBao with the identities that the servers sign,
and get a token with their own rights. The command makes what Vault needs for
that: the auth method jwt-nomad, which verifies identities by the public keys
of the cluster; the role nomad-workloads of tasks; and a policy of this name.
Another -auth-path has its own policy: nomad-workloads-PATH, with - for /.
Without -policy-file the policy lets a task read secret/NAMESPACE/JOB/* in the
KV engine of version 2 at secret. The word ACCESSOR in the file stands for the
accessor of the auth method.

It shows what it will do, and asks. A second run changes nothing. It changes
and deletes only what it has made itself. Rights that you give the policy and
values that you add to the role stay.

VAULT_TOKEN must have a token that may write auth methods and policies. The
command also reads VAULT_ADDR, VAULT_NAMESPACE, VAULT_CACERT, VAULT_CAPATH,
VAULT_CLIENT_CERT, VAULT_CLIENT_KEY, VAULT_TLS_SERVER_NAME and
VAULT_SKIP_VERIFY.`

var vaultCommand = command.Command{
	Name:     "vault",
	Synopsis: "Make what the logins of tasks need in Vault or OpenBao",
	Help:     vaultHelp,
	Acts:     true,
	Flags: []command.Flag{
		{
			Name:  "vault-address",
			Kind:  command.String,
			Value: "url",
			Usage: "Vault. Default: VAULT_ADDR, else " + localVault,
		},
		{
			Name:    "auth-path",
			Kind:    command.String,
			Value:   "path",
			Default: vault.DefaultAuthPath,
			Usage:   "The path of the auth method: vault.jwt_auth_backend_path of the nodes",
		},
		{
			Name:  "jwks-url",
			Kind:  command.String,
			Value: "url",
			Usage: "Where Vault's servers read the public keys of the cluster. Default: what is set already, " +
				"else below server.oidc_issuer, else " + keysPath + " of the agent",
		},
		{
			Name:  "jwks-ca-file",
			Kind:  command.String,
			Value: "file",
			Usage: "The authority of -jwks-url, in PEM, for Vault. Default: what is set already",
		},
		{
			Name:  "policy-file",
			Kind:  command.String,
			Value: "file",
			Usage: "The rules of the policy of tasks, in Vault's HCL. Default: those that it has",
		},
		{Name: "check", Usage: "Show what is to be done, and end with 1 if that is something"},
		{Name: "destroy", Usage: "Delete all that the command has made for -auth-path"},
		{Name: "y", Usage: "Do not ask"},
		command.NoColorFlag,
	},
	Run: setUpVault,
	Examples: "berth setup vault -jwks-url https://b1.example.com:4746" + keysPath + "\n" +
		"berth setup vault -policy-file tasks.hcl -y\n" +
		"berth setup vault -check\n" +
		"berth setup vault -destroy",
}

// vaultOutcome is the answer with -json.
type vaultOutcome struct {
	Vault string            // its address
	Steps []*setupstep.Step // that are done, or with -check would be
}

func setUpVault(ctx context.Context, c *command.Call) error {
	cfg, err := vaultConfig(c)
	if err != nil {
		return err
	}
	client, err := setup.Open(cfg, structs.Secret(os.Getenv("VAULT_TOKEN")))
	if err != nil {
		return nameSources(c, err)
	}
	defer client.Close()
	steps, err := planVault(ctx, c, client)
	if err != nil {
		return err
	}
	return carryOut(ctx, c, proposal{
		place:   "Vault at " + client.Address(),
		steps:   steps,
		outcome: vaultOutcome{Vault: client.Address(), Steps: steps},
		next:    func(c *command.Call) { printVaultSettings(c, cfg) },
	})
}

// vaultConfig reads the options and the variables that Vault's own command line reads.
func vaultConfig(c *command.Call) (cfg vault.Config, err error) {
	cfg = vault.DefaultConfig()
	cfg.Address = cmp.Or(c.String("vault-address"), os.Getenv("VAULT_ADDR"), localVault)
	cfg.JWTAuthBackendPath = c.String("auth-path")
	cfg.Namespace = os.Getenv("VAULT_NAMESPACE")
	cfg.CAFile = os.Getenv("VAULT_CACERT")
	cfg.CAPath = os.Getenv("VAULT_CAPATH")
	cfg.CertFile = os.Getenv("VAULT_CLIENT_CERT")
	cfg.KeyFile = os.Getenv("VAULT_CLIENT_KEY")
	cfg.TLSServerName = os.Getenv("VAULT_TLS_SERVER_NAME")
	skip := os.Getenv("VAULT_SKIP_VERIFY")
	if skip != "" {
		cfg.TLSSkipVerify, err = strconv.ParseBool(skip)
	}
	if err != nil {
		return cfg, structs.Invalidf("VAULT_SKIP_VERIFY is %q; expected true or false",
			structs.Cut(skip, structs.MaxQuoted))
	}
	return cfg, nil
}

// nameSources names the options and variables in the faults of a configuration. Each fault is a line that
// begins with its setting.
func nameSources(c *command.Call, err error) error {
	if !structs.IsKind(err, structs.KindInvalid) {
		return err
	}
	address := "VAULT_ADDR"
	if c.Given("vault-address") {
		address = "-vault-address"
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		for _, of := range []struct{ setting, source string }{
			{"vault.address", address},
			{"vault.jwt_auth_backend_path", "-auth-path"},
			{"vault.namespace", "VAULT_NAMESPACE"},
			{"vault.ca_file or ca_path", "VAULT_CACERT or VAULT_CAPATH"},
			{"vault.ca_file", "VAULT_CACERT"},
			{"vault.ca_path", "VAULT_CAPATH"},
			{"vault.cert_file and key_file", "VAULT_CLIENT_CERT and VAULT_CLIENT_KEY"},
			{"vault.cert_file", "VAULT_CLIENT_CERT"},
			{"vault.key_file", "VAULT_CLIENT_KEY"},
			{"vault.tls_server_name", "VAULT_TLS_SERVER_NAME"},
		} {
			if rest, ok := strings.CutPrefix(line, of.setting); ok {
				lines[i] = of.source + rest
				break
			}
		}
	}
	return structs.Invalidf("%s", strings.Join(lines, "\n"))
}

// planVault returns the steps that the options ask for.
func planVault(ctx context.Context, c *command.Call, client *setup.Client) ([]*setupstep.Step, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if c.Bool("destroy") {
		err := checkDestroy(c)
		if err != nil {
			return nil, err
		}
		return client.PlanRemoval(ctx)
	}

	w := &setup.Wanted{
		JWKSURL:    c.String("jwks-url"),
		DefaultURL: func(ctx context.Context) (string, error) { return defaultURL(ctx, c, "Vault") },
	}
	err := readOptions(c, map[string]*string{"jwks-ca-file": &w.JWKSCA, "policy-file": &w.Rules})
	if err != nil {
		return nil, err
	}
	return client.Plan(ctx, w)
}

// printVaultSettings shows the block of the agents. A node calls the same Vault as the command, so it needs
// the same settings.
func printVaultSettings(c *command.Call, cfg vault.Config) {
	c.Printf("\nTasks with a block vault log in, once all nodes and servers of berth have this in their\n"+
		"configuration and have been restarted:\n\n"+
		"  vault {\n"+
		"    enabled = true\n"+
		"    address = %q\n", cfg.Address)
	authPath := strings.Trim(cfg.JWTAuthBackendPath, "/")
	if authPath == vault.DefaultAuthPath {
		authPath = ""
	}
	for _, s := range []struct{ name, value string }{
		{"namespace", cfg.Namespace},
		{"jwt_auth_backend_path", authPath},
		{"ca_file", cfg.CAFile},
		{"ca_path", cfg.CAPath},
		{"cert_file", cfg.CertFile},
		{"key_file", cfg.KeyFile},
		{"tls_server_name", cfg.TLSServerName},
	} {
		if s.value != "" {
			c.Printf("    %s = %q\n", s.name, s.value)
		}
	}
	if cfg.TLSSkipVerify {
		c.Printf("    tls_skip_verify = true\n")
	}
	c.Printf("    default_identity { aud = [%q] }\n  }\n", setup.Audience)
	if cfg.CAFile+cfg.CAPath+cfg.CertFile != "" {
		c.Printf("\nThe files are those of this machine. Name the files that each node has.\n")
	}
}
