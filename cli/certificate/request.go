package certificate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"berth/api/operator"
	"berth/api/show"
	"berth/cli/command"
	"berth/internal/pki"
	"berth/structs"
	"berth/structs/cluster"
)

// requestCommand is berth tls cert request.
var requestCommand = command.Command{
	Name:     "request",
	Synopsis: "Get the certificate of an operator from the servers",
	Help: `
Where the servers are the certificate authority ("berth tls init"), they sign
certificates of operators, which call the HTTP API. Root gets one of each name
over the operator socket of a server. An operator gets the next one of its own
name, with its certificate of before, for 720h at most.

The key is made here and does not leave this machine. Writes
REGION-operator-ID.pem, REGION-operator-ID-key.pem and, with the authorities
to trust, REGION-operator-ID-ca.pem. Existing files are not overwritten.

"berth tls revoke -operator" ends all certificates of an operator. No list has
them. Keep the serial number, which ends this one alone: the log of the leader
has it, too.`,
	Acts: true,
	Flags: []command.Flag{
		{
			Name:  "id",
			Kind:  command.String,
			Value: "name",
			Usage: "The name of the operator. Default: the user name",
		},
		{
			Name:    "ttl",
			Kind:    command.Duration,
			Value:   "duration",
			Default: "720h",
			Usage:   "The life of the certificate, at most 8760h. It ends with its authority at the latest",
		},
		dirFlag,
	},
	Run: requestCertificate,
	Examples: "berth tls cert request -id ann\n" +
		"berth tls cert request -id ci -ttl 24h -dir /etc/ci",
}

// requestedFiles are the files of a certificate of the servers.
type requestedFiles struct {
	created
	CAFile string
	Serial string
}

// requestCertificate makes a key on this machine and asks the servers for its certificate. The key never
// leaves the machine. It checks the files first, because a certificate that cannot be written would be issued
// in vain.
func requestCertificate(ctx context.Context, c *command.Call) error {
	id, err := askedOperator(ctx, c)
	if err != nil {
		return err
	}

	base := filepath.Join(c.String("dir"), fmt.Sprintf("%s-%s-%s", id.Region, id.Role, id.ID))
	done := requestedFiles{CAFile: base + "-ca.pem"}
	done.Identity = id.String()
	done.CertFile = base + ".pem"
	done.KeyFile = base + "-key.pem"
	err = checkNewFiles(done.CertFile, done.KeyFile, done.CAFile)
	if err != nil {
		return err
	}

	key, err := pki.NewKey()
	if err != nil {
		return err
	}

	keyPEM, err := key.PEM()
	if err != nil {
		return err
	}

	csr, err := key.CSR(id)
	if err != nil {
		return fmt.Errorf("%w (-id)", err)
	}

	answer, err := operator.RequestOperatorCertificate(ctx, c.API, &cluster.OperatorCertificateRequest{
		CSR: csr,
		TTL: c.Duration("ttl"),
	})
	if err != nil {
		return err
	}

	done.Serial = answer.Serial
	done.Until = time.Unix(0, answer.NotAfter)
	err = createFiles([]newFile{
		{done.CertFile, modeCert, []byte(answer.Certificate)},
		{done.KeyFile, modeKey, keyPEM},
		{done.CAFile, modeCert, []byte(answer.Authorities)},
	})
	if err != nil {
		return err
	}

	printRequested(c, id, done)
	return c.WriteOutcome(done)
}

// askedOperator returns the identity of the options, in the region of the agent.
func askedOperator(ctx context.Context, c *command.Call) (id pki.Identity, err error) {
	if ttl := c.Duration("ttl"); ttl < time.Second || ttl > cluster.MaxOperatorLife {
		return id, command.BadUsage("-ttl is %s; expected a second to %s", ttl, cluster.MaxOperatorLife)
	}

	id.Role = pki.RoleOperator
	id.ID = c.String("id")
	if id.ID == "" {
		id.ID, err = defaultID(id.Role)
	}
	if err != nil {
		return id, err
	}

	self, err := operator.ReadAgent(ctx, c.API)
	if err != nil {
		return id, err
	}

	region, _ := self.Config["Region"].(string)
	id.Region = cmp.Or(region, structs.DefaultRegion)
	err = id.Validate() // its parts are in the names of the files
	if err != nil {
		return id, fmt.Errorf("%w (-id)", err)
	}

	return id, nil
}

// checkNewFiles returns an error if a file exists already, or its directory does not: a certificate would be
// signed for nothing.
func checkNewFiles(paths ...string) error {
	_, err := os.Stat(filepath.Dir(paths[0]))
	if err != nil {
		return structs.Invalidf("%w (-dir)", err)
	}

	for _, path := range paths {
		_, err := os.Lstat(path)
		if err == nil {
			return existing(path)
		}
	}

	return nil
}

func printRequested(c *command.Call, id pki.Identity, done requestedFiles) {
	c.Printf("Wrote %s, the certificate of the operator %s in the region %s, valid until %s\n",
		done.CertFile, id.ID, id.Region, show.Time(done.Until))
	c.Printf("Wrote %s, its key: keep it secret\n", done.KeyFile)
	c.Printf("Wrote %s, the authorities to trust\n\n", done.CAFile)
	printEnvironment(c, done.CAFile, done.created)
	c.Printf("To revoke it:\n")
	c.Printf("  berth tls revoke -serial %s\n", done.Serial)
	c.Printf("To revoke all certificates of the operator:\n")
	c.Printf("  berth tls revoke -operator %s\n", id.ID)
}
