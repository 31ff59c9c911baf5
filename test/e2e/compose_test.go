package e2e

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/client/drivers/docker/dockertest"
	"berth/test/kit"
)

// composeFile has a service that lists its volume, makes a file there and answers on a port. The daemons of
// tests have no bridge.
const composeFile = `name: shop
services:
  web:
    image: program:1
    command: ["list:/data", "make:/data/made", "serve:%[1]d", "trap:0"]
    network_mode: host
    ports: ["%[1]d:%[1]d"]
    stop_grace_period: 5s
    volumes: ["data:/data"]
    deploy:
      resources:
        limits: {memory: 32M}
volumes:
  data:
`

// writeConverted writes the job file of a compose file, and returns its path.
func (a *agent) writeConverted(text string, options ...string) (job string) {
	a.t.Helper()
	job = a.dir + "/shop.hcl"
	args := append([]string{"compose", "-out", job}, options...)
	mustConvert(a.t, "", append(args, a.writeFile("compose.yaml", text))...)
	return job
}

// awaitAnswer waits until the only instance of a service says a line to each connection.
func (a *agent) awaitAnswer(service, want string) {
	a.t.Helper()
	eventually(a.t, service+" answers", func() error {
		found, err := a.services(service)
		if err != nil || len(found) != 1 {
			return fmt.Errorf("there are %d instances, %w", len(found), err)
		}
		address := net.JoinHostPort(found[0].Address, strconv.Itoa(found[0].Port))
		conn, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		said, err := io.ReadAll(conn)
		if err == nil && string(said) != want {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
}

// TestConvert_RunsAComposeFile as it was converted, with a volume of a class. The data outlive a restart of
// the container, and the job.
func TestConvert_RunsAComposeFile(t *testing.T) {
	t.Parallel()
	d := dockertest.Start(t)
	d.Import("program:1")
	a := dockerAgent(t, d)
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.must("volume", "class", "apply", a.writeFile("class.hcl", `
name       = "fast"
plugin_id  = "hostpath"
parameters = { type = "image", provisioning = "thin" }
`))
	port := kit.FreePorts(t, 1)[0]
	job := a.writeConverted(fmt.Sprintf(composeFile, port), "-class", "fast", "-size", "32MiB")
	answer := fmt.Sprintf("tcp %d\n", port)

	a.must("job", "run", "-detach", job)
	first := a.awaitRunning("shop", 1)[0].ID
	a.awaitAnswer("shop-web", answer)
	const made = "/data/made\n"
	if out := a.logs(first); strings.Contains(out, made) {
		t.Errorf("a new volume has\n%s", out)
	}
	a.must("alloc", "restart", first)
	a.awaitOutput(first, made)
	a.awaitAnswer("shop-web", answer)

	a.must("job", "stop", "-purge", "shop")
	a.must("job", "run", "-detach", job)
	second := a.awaitRunning("shop", 1)[0].ID
	a.awaitOutput(second, made)
	a.awaitAnswer("shop-web", answer)
	a.must("job", "stop", "-purge", "shop")
	checkContainersGone(t, d)
	a.must("job", "stop", "-purge", "hostpath")
}
