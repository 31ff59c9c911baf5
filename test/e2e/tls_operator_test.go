package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"berth/structs"
)

// operator has the files of the certificate of an operator.
type operator struct {
	*owned
	base   string // of the names of its files
	ca     string // the file of the authorities
	serial string
}

// newOperator gets the certificate of ann, over the socket or with the certificate of another operator.
func (c *owned) newOperator(dir string, by *operator) *operator {
	c.t.Helper()
	o := &operator{owned: c, base: filepath.Join(dir, "global-operator-ann")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	request := []string{"tls", "cert", "request", "-id", "ann", "-dir", dir, "-json"}
	out := ""
	if by == nil {
		out = c.run(request...)
	} else {
		eventually(c.t, "ann gets her next certificate", func() (err error) {
			out, err = by.call(c.servers[1], request...)
			return err
		})
	}
	o.ca = o.base + "-ca.pem"
	answer := decode[struct{ Serial string }](c.t, out)
	o.serial = answer.Serial
	return o
}

// call runs a command at the HTTPS port of an agent with the certificate.
func (o *operator) call(a *agent, args ...string) (string, error) {
	address := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(a.http))
	return a.run(append(args, "-address", address, "-ca-cert", o.ca, "-client-cert", o.base+".pem",
		"-client-key", o.base+"-key.pem")...)
}

func (o *operator) mustCall() {
	o.t.Helper()
	for _, s := range o.servers {
		eventually(o.t, "ann calls "+s.name, func() error {
			out, err := o.call(s, "node", "status")
			if err == nil && !strings.Contains(out, "ready") {
				err = errors.New(out)
			}
			return err
		})
	}
}

// The servers sign certificates of operators. One works before and after the authority is replaced, renews
// itself, and can be revoked.
func TestTLSOperator_GetsItsCertificateFromTheServers(t *testing.T) {
	t.Parallel()
	c := newOwned(t)
	dir := t.TempDir()
	first := c.newOperator(filepath.Join(dir, "first"), nil)
	first.mustCall()
	_, err := first.call(c.servers[0], "tls", "cert", "request", "-id", "bob", "-dir", dir)
	if exitCode(err) != structs.KindDenied.ExitCode() {
		t.Errorf("ann asked for the certificate of bob: %v", err)
	}

	c.run("tls", "ca", "replace")
	trusted := c.trusted()
	c.awaitFollow(trusted)
	first.mustCall()
	second := c.newOperator(filepath.Join(dir, "second"), first)
	second.mustCall()
	second.mustBeLogged()
	c.run("tls", "ca", "remove", trusted[1], "-yes")
	c.awaitFollow(trusted[:1])
	second.mustCall()
	first.ca = second.ca
	first.mustBeRejected("its authority is removed")

	c.run("tls", "revoke", "-serial", second.serial, "-yes")
	second.mustBeRejected("it is revoked")
	c.newOperator(filepath.Join(dir, "third"), nil).mustCall()
}

// mustBeRejected waits until all servers reject the certificate.
func (o *operator) mustBeRejected(why string) {
	o.t.Helper()
	for _, s := range o.servers {
		eventually(o.t, s.name+" rejects ann: "+why, func() error {
			out, err := o.call(s, "node", "status")
			if err == nil || !strings.Contains(err.Error(), "rejects the client certificate") {
				return fmt.Errorf("it answers %s, %v", out, err)
			}
			return nil
		})
	}
}

// mustBeLogged checks that the log of a server has the serial number of the certificate and its caller.
func (o *operator) mustBeLogged() {
	o.t.Helper()
	const caller = "caller=spiffe://global/operator/ann"
	for _, s := range o.servers {
		content, err := os.ReadFile(s.log.Name())
		if err != nil {
			o.t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, o.serial) && strings.Contains(line, caller) {
				return
			}
		}
	}
	o.t.Errorf("no log has the certificate %s", o.serial)
}
