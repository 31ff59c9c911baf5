package certificate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"time"

	"berth/api/show"
	"berth/cli/command"
	"berth/internal/pki"
	"berth/structs"
)

// created is the outcome of the commands that create.
type created struct {
	Identity string `json:",omitempty"` // of a certificate
	CertFile string
	KeyFile  string
	Until    time.Time
}

// createAuthority calls no agent, and overwrites no file.
func createAuthority(_ context.Context, c *command.Call) error {
	life, err := life(c)
	if err != nil {
		return err
	}

	region := c.String("region")
	authority, err := pki.NewAuthority(region, show.Now(), life)
	if err != nil {
		return fmt.Errorf("%w (-region)", err)
	}

	keyPEM, err := authority.KeyPEM()
	if err != nil {
		return err
	}

	done := created{
		CertFile: filepath.Join(c.String("dir"), caFile),
		KeyFile:  filepath.Join(c.String("dir"), caKeyFile),
		Until:    authority.Cert.NotAfter,
	}

	err = createFiles([]newFile{
		{done.CertFile, modeCert, authority.CertPEM()},
		{done.KeyFile, modeKey, keyPEM},
	})
	if err != nil {
		return err
	}

	c.Printf("Wrote %s, the authority of the region %s, valid until %s\n",
		done.CertFile, region, show.Time(done.Until))
	c.Printf("Wrote %s, its key. Whoever has it can join the cluster: keep it offline\n\n", done.KeyFile)
	c.Printf("Create the certificates of the servers, the nodes and the operators with it:\n")
	c.Printf("  berth tls cert create -server -id s1\n")
	c.Printf("  berth tls cert create -client\n")
	c.Printf("  berth tls cert create -cli\n")
	return c.WriteOutcome(done)
}

// createCertificate calls no agent: it signs with the key of the authority on this machine.
func createCertificate(_ context.Context, c *command.Call) error {
	role, err := chosenRole(c)
	if err != nil {
		return err
	}

	authority, err := readAuthority(c)
	if err != nil {
		return err
	}

	r, err := requested(c, role, authority.Region())
	if err != nil {
		return err
	}

	certPEM, keyPEM, err := authority.Issue(r)
	if err != nil {
		return fmt.Errorf("%w (-region, -id, -name, -days)", err)
	}

	base := filepath.Join(c.String("dir"), fmt.Sprintf("%s-%s-%s", r.Region, r.Role, r.ID))
	done := created{
		Identity: r.Identity.String(),
		CertFile: base + ".pem",
		KeyFile:  base + "-key.pem",
		Until:    r.From.Add(r.Life),
	}

	err = createFiles([]newFile{
		{done.CertFile, modeCert, certPEM},
		{done.KeyFile, modeKey, keyPEM},
	})
	if err != nil {
		return err
	}

	c.Printf("Wrote %s, the certificate of the %s %s in the region %s, valid until %s\n",
		done.CertFile, r.Role, r.ID, r.Region, show.Time(done.Until))
	c.Printf("Wrote %s, its key: keep it secret\n\n", done.KeyFile)
	printNextStep(c, r, done)
	return c.WriteOutcome(done)
}

// roleFlags has the flags of the roles.
var roleFlags = map[pki.Role]string{
	pki.RoleServer:   "server",
	pki.RoleNode:     "client",
	pki.RoleOperator: "cli",
}

// chosenRole returns the role whose flag is set.
func chosenRole(c *command.Call) (pki.Role, error) {
	var chosen []pki.Role
	for _, role := range pki.Roles {
		if c.Bool(roleFlags[role]) {
			chosen = append(chosen, role)
		}
	}

	if len(chosen) != 1 {
		return "", command.BadUsage("expected one of -server, -client and -cli")
	}

	return chosen[0], nil
}

// readAuthority reads the files of -ca and -key.
func readAuthority(c *command.Call) (*pki.Authority, error) {
	certPEM, err := readAuthorityFile(c.String("ca"), "-ca")
	if err != nil {
		return nil, err
	}

	keyPEM, err := readAuthorityFile(c.String("key"), "-key")
	if err != nil {
		return nil, err
	}

	authority, err := pki.ParseAuthority(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w (-ca, -key)", c.String("ca"), c.String("key"), err)
	}

	return authority, nil
}

func readAuthorityFile(name, option string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, structs.Invalidf("there is no file %s: name the authority's with %s, "+
			"or create an authority with `berth tls ca create`", name, option)
	}
	if err != nil {
		return nil, structs.Invalidf("%w (%s)", err, option)
	}
	return b, nil
}

// requested returns the request of the options. region is the authority's.
func requested(c *command.Call, role pki.Role, region string) (pki.Request, error) {
	life, err := life(c)
	if err != nil {
		return pki.Request{}, err
	}

	id := c.String("id")
	if id == "" {
		id, err = defaultID(role)
	}
	if err != nil {
		return pki.Request{}, err
	}

	return pki.Request{
		Identity: pki.Identity{
			Region: cmp.Or(c.String("region"), region, structs.DefaultRegion),
			Role:   role,
			ID:     id,
		},
		Names: slices.Concat(
			c.Strings("name"),
			c.Strings("additional-dnsname"),
			c.Strings("additional-ipaddress"),
		),
		From: show.Now(),
		Life: life,
	}, nil
}

// defaultID returns the ID of a holder that has no -id.
func defaultID(role pki.Role) (string, error) {
	switch role {
	case pki.RoleServer:
		name, err := os.Hostname()
		if err != nil {
			return "", structs.Invalidf("this machine has no host name: name the server with -id: %w", err)
		}
		return name, nil
	case pki.RoleOperator:
		me, err := user.Current()
		if err != nil {
			return "", structs.Invalidf("the user has no name: name the operator with -id: %w", err)
		}
		return me.Username, nil
	default:
		return structs.NewID(), nil
	}
}

// printNextStep shows where the holder of a new certificate names it.
func printNextStep(c *command.Call, r pki.Request, done created) {
	if r.Role == pki.RoleOperator {
		printEnvironment(c, c.String("ca"), done)
		return
	}

	const dir = "/etc/berth/tls/"
	c.Printf("Copy both files and %s to the machine, for example to %s.\n", c.String("ca"), dir)
	c.Printf("Put into the configuration of its agent:\n")
	c.Printf("  tls {\n")
	c.Printf("    mode      = \"require\" # \"prefer\" while a cluster that runs changes over\n")
	c.Printf("    ca_file   = %q\n", dir+filepath.Base(c.String("ca")))
	c.Printf("    cert_file = %q\n", dir+filepath.Base(done.CertFile))
	c.Printf("    key_file  = %q\n", dir+filepath.Base(done.KeyFile))
	c.Printf("  }\n")
	if r.Role == pki.RoleNode && !c.Given("id") {
		c.Printf("A new node takes the node ID %s from this certificate. For a node that exists,\n", r.ID)
		c.Printf("name its own ID with -id: \"berth node status -self -verbose\" shows it there.\n")
	}
}

// printEnvironment shows where the command line takes the certificate of an operator from.
func printEnvironment(c *command.Call, ca string, done created) {
	c.Printf("Set the environment of the operator, with the authority's certificate:\n")
	for _, v := range [][2]string{
		{"BERTH_CACERT", ca},
		{"BERTH_CLIENT_CERT", done.CertFile},
		{"BERTH_CLIENT_KEY", done.KeyFile},
	} {
		c.Printf("  export %s=%s\n", v[0], structs.ShellWord(absolute(v[1])))
	}
	c.Printf("  export BERTH_ADDR=https://127.0.0.1:4746\n")
}

// absolute returns a path that does not depend on the working directory, if there is one.
func absolute(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return full
}
