package packages

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"berth/client/drivers/docker/dockertest"
	"berth/internal/version"
	"berth/test/kit"
)

// runImage starts the image of a release in a docker daemon, and asks its server from within the container.
func runImage(t *testing.T, dist string) {
	daemon := dockertest.Start(t)
	api, err := client.New(client.WithHost(daemon.Endpoint()))
	kit.Must(t, err)
	t.Cleanup(func() { _ = api.Close() })

	archive, err := os.Open(filepath.Join(dist,
		"berth-"+version.Version+"-image-"+runtime.GOARCH+".tar"))
	kit.Must(t, err)
	defer func() { _ = archive.Close() }()
	loaded, err := api.ImageLoad(t.Context(), archive)
	kit.Must(t, err)
	defer func() { _ = loaded.Close() }()
	_, err = io.Copy(io.Discard, loaded) // the daemon has loaded it at its end
	kit.Must(t, err)

	// Without a network the container has its own loopback, where the server listens.
	made, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Image:      "berth:" + version.Version,
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	kit.Must(t, err)
	_, err = api.ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{})
	kit.Must(t, err)

	for limit := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		out, err := execIn(t, api, made.ID, "/usr/bin/berth", "operator", "raft", "list-peers")
		switch {
		case err == nil && strings.Contains(out, "leader"):
			return
		case time.Now().After(limit):
			t.Fatalf("no server leads: %v: %s\n%s", err, out, daemon.Output(made.ID))
		}
	}
}

// execIn runs a command in a container until its end, and returns its output.
func execIn(t *testing.T, api *client.Client, id string, command ...string) (string, error) {
	t.Helper()
	made, err := api.ExecCreate(t.Context(), id, client.ExecCreateOptions{
		Cmd:          command,
		TTY:          true, // without the frames of two streams
		AttachStdout: true,
		AttachStderr: true,
	})
	if err != nil {
		return "", err
	}
	attached, err := api.ExecAttach(t.Context(), made.ID, client.ExecAttachOptions{TTY: true})
	if err != nil {
		return "", err
	}
	defer attached.Close()
	out, err := io.ReadAll(attached.Reader)
	if err != nil {
		return "", err
	}

	state, err := api.ExecInspect(t.Context(), made.ID, client.ExecInspectOptions{})
	if err == nil && state.ExitCode != 0 {
		err = fmt.Errorf("%q ended with code %d", command, state.ExitCode)
	}
	return string(out), err
}
