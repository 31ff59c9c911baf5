package engine

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"berth/structs"
)

// Container is a container's description. Its State, Config and HostConfig are not nil.
type Container = container.InspectResponse

// Inspect describes a container, by ID or name.
func (e *Engine) Inspect(ctx context.Context, id string) (*Container, error) {
	var c Container
	err := e.call(ctx, "inspecting container "+id, quickTimeout, func(ctx context.Context, api *moby) error {
		answer, err := api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		c = answer.Container
		return err
	})
	if err != nil {
		return nil, err
	}

	if c.State == nil || c.Config == nil || c.HostConfig == nil || c.ID == "" {
		return nil, structs.Preconditionf("docker: inspecting container %s: the daemon's answer lacks parts",
			id)
	}

	c.Name = strings.TrimPrefix(c.Name, "/")
	return &c, nil
}

// Create makes a container and returns its ID. A name that is in use is a conflict.
func (e *Engine) Create(ctx context.Context, options client.ContainerCreateOptions) (id string, err error) {
	err = e.call(ctx, "creating container "+options.Name, slowTimeout,
		func(ctx context.Context, api *moby) error {
			answer, err := api.ContainerCreate(ctx, options)
			id = answer.ID
			return err
		})
	if err == nil && id == "" {
		err = structs.Preconditionf("docker: creating container %s: the daemon names no container",
			options.Name)
	}

	return id, err
}

// StartContainer starts a created container.
func (e *Engine) StartContainer(ctx context.Context, id string) error {
	return e.call(ctx, "starting container "+id, slowTimeout, func(ctx context.Context, api *moby) error {
		_, err := api.ContainerStart(ctx, id, client.ContainerStartOptions{})
		return err
	})
}

// Kill sends a signal. An ended container is a conflict.
func (e *Engine) Kill(ctx context.Context, id, signal string) error {
	return e.call(ctx, "sending "+signal+" to container "+id, quickTimeout,
		func(ctx context.Context, api *moby) error {
			_, err := api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: signal})
			return err
		})
}

// Remove kills a container and removes it with its unnamed volumes. One that is gone is no error.
func (e *Engine) Remove(ctx context.Context, id string) error {
	err := e.call(ctx, "removing container "+id, slowTimeout, func(ctx context.Context, api *moby) error {
		_, err := api.ContainerRemove(ctx, id,
			client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
		return err
	})
	if structs.IsKind(err, structs.KindNotFound) {
		return nil
	}
	return err
}

// List lists all containers, also ended ones, with a label.
func (e *Engine) List(ctx context.Context, label string) ([]container.Summary, error) {
	var list []container.Summary
	err := e.call(ctx, "listing containers", quickTimeout, func(ctx context.Context, api *moby) error {
		answer, err := api.ContainerList(ctx, client.ContainerListOptions{
			All:     true,
			Filters: client.Filters{}.Add("label", label),
		})
		list = answer.Items
		return err
	})

	return list, err
}

// recheck bounds one wait for the end of a container: a daemon may lose a waiting caller.
const recheck = time.Minute

// AwaitEnd returns when the container may have ended, at the latest after a minute. Inspect has the facts.
func (e *Engine) AwaitEnd(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, recheck, errRecheck)
	defer cancel()
	doing := "waiting for container " + id
	err := e.callUnbounded(bounded(ctx), doing, func(ctx context.Context, api *moby) error {
		w := api.ContainerWait(ctx, id,
			client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		// One of the channels receives, also at the end of ctx: a select on ctx would leave the sender
		// waiting.
		select {
		case <-w.Result:
			return nil
		case err := <-w.Error:
			return err
		}
	})

	if context.Cause(ctx) == errRecheck {
		return nil
	}

	return err
}

var errRecheck = structs.Timeoutf("it is time to look at the container")

// Stats measures a container once.
func (e *Engine) Stats(ctx context.Context, id string) (*container.StatsResponse, error) {
	s := &container.StatsResponse{}
	err := e.call(ctx, "measuring container "+id, quickTimeout, func(ctx context.Context, api *moby) error {
		answer, err := api.ContainerStats(ctx, id, client.ContainerStatsOptions{})
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		return json.NewDecoder(answer.Body).Decode(s)
	})

	return s, err
}

// Logs follows the output of a container from a time on, with a time before each line. The stream ends with
// ctx, with the container or with the daemon. A zero time is the beginning.
func (e *Engine) Logs(
	ctx context.Context, id string, since time.Time, follow bool,
) (stream io.ReadCloser, err error) {
	options := client.ContainerLogsOptions{
		ShowStdout: true,
		ShowStderr: true,
		Timestamps: true,
		Follow:     follow,
	}

	if !since.IsZero() {
		options.Since = since.UTC().Format("2006-01-02T15:04:05.000000000Z")
	}

	err = e.callUnbounded(ctx, "reading the output of container "+id,
		func(ctx context.Context, api *moby) error {
			stream, err = api.ContainerLogs(ctx, id, options)
			return err
		})
	return stream, err
}

// User is a line of a container's /etc/passwd.
type User struct {
	Name     string
	UID, GID uint32
}

const (
	// maxPasswd bounds the file of users that is read.
	maxPasswd = 1 << 20
	// maxLinks bounds the links to the file of users.
	maxLinks = 8
)

// Users lists the users of a container. A container without the file has none.
func (e *Engine) Users(ctx context.Context, id string) ([]User, error) {
	var text []byte
	err := e.call(ctx, "reading the users of container "+id, quickTimeout,
		func(ctx context.Context, api *moby) error {
			file := "/etc/passwd"
			for range maxLinks {
				content, link, err := readFile(ctx, api, id, file)
				if err != nil || link == "" {
					text = content
					return err
				}

				if !path.IsAbs(link) {
					link = path.Join(path.Dir(file), link)
				}

				file = link
			}
			return nil
		})

	if err != nil && !structs.IsKind(err, structs.KindNotFound) {
		return nil, err
	}

	return parseUsers(string(text)), nil
}

// readFile reads the beginning of a file of a container. The daemon follows no link: link is where one leads.
func readFile(ctx context.Context, api *moby, id, file string) (content []byte, link string, err error) {
	answer, err := api.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: file})
	if err != nil {
		return nil, "", err
	}
	defer answer.Content.Close()

	archive := tar.NewReader(answer.Content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, "", nil
		}
		if err != nil {
			return nil, "", err
		}

		switch header.Typeflag {
		case tar.TypeReg:
			content, err = io.ReadAll(io.LimitReader(archive, maxPasswd))
			return content, "", err
		case tar.TypeSymlink:
			return nil, header.Linkname, nil
		}
	}
}

func parseUsers(text string) []User {
	var users []User
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 {
			continue
		}
		uid, uidErr := strconv.ParseUint(f[2], 10, 32)
		gid, gidErr := strconv.ParseUint(f[3], 10, 32)
		if uidErr == nil && gidErr == nil {
			users = append(users, User{Name: f[0], UID: uint32(uid), GID: uint32(gid)})
		}
	}

	return users
}
