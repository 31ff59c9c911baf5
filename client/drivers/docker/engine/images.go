package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"berth/structs"
)

// Image is an image that the daemon has.
type Image struct {
	ID   string
	User string // the user of its programs, "" for root
	// StopSignal ends its programs, "" for SIGTERM.
	StopSignal string
	// Labels are the labels that a container inherits.
	Labels map[string]string
	// Empty says that it is as ImportEmpty makes it: without files, and with nothing that a container
	// inherits.
	Empty bool
}

// Image finds an image by reference or ID.
func (e *Engine) Image(ctx context.Context, ref string) (*Image, error) {
	image := &Image{}
	err := e.call(ctx, "looking for image "+ref, quickTimeout, func(ctx context.Context, api *moby) error {
		answer, err := api.ImageInspect(ctx, ref)
		image.ID = answer.ID
		if answer.Config != nil {
			image.User = answer.Config.User
			image.StopSignal = answer.Config.StopSignal
			image.Labels = answer.Config.Labels
		}
		image.Empty = slices.Equal(answer.RootFS.Layers, []string{emptyLayer()}) &&
			inheritsNothing(answer.Config)
		return err
	})

	if err == nil && image.ID == "" {
		err = structs.Preconditionf("docker: looking for image %s: the daemon's answer has no ID", ref)
	}

	return image, err
}

// Auth are the credentials of a registry. The zero value is none.
type Auth struct {
	Username, Password string
	IdentityToken      string
	ServerAddress      string
}

// header is the form in which the daemon takes credentials.
func (a Auth) header() (string, error) {
	if a == (Auth{}) {
		return "", nil
	}

	text, err := json.Marshal(registry.AuthConfig{
		Username:      a.Username,
		Password:      a.Password,
		IdentityToken: a.IdentityToken,
		ServerAddress: a.ServerAddress,
	})

	return base64.URLEncoding.EncodeToString(text), err
}

// Message is a step of a download or a load.
type Message = jsonstream.Message

// Pull downloads an image. It passes each message of the daemon to each. The caller bounds its time.
func (e *Engine) Pull(ctx context.Context, ref string, auth Auth, each func(*Message)) error {
	return e.callUnbounded(ctx, "downloading image "+ref, func(ctx context.Context, api *moby) error {
		header, err := auth.header()
		if err != nil {
			return err
		}
		stream, err := api.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: header})
		if err != nil {
			return err
		}
		return readMessages(ctx, stream, each)
	})
}

// Load gives the daemon an archive with images, as `docker save` makes them. The caller bounds its time.
func (e *Engine) Load(ctx context.Context, archive io.Reader, each func(*Message)) error {
	return e.callUnbounded(ctx, "loading an image", func(ctx context.Context, api *moby) error {
		stream, err := api.ImageLoad(ctx, archive)
		if err != nil {
			return err
		}
		return readMessages(ctx, stream, each)
	})
}

// ImportEmpty makes an image without files.
func (e *Engine) ImportEmpty(ctx context.Context, ref string) error {
	return e.call(ctx, "making image "+ref, slowTimeout, func(ctx context.Context, api *moby) error {
		stream, err := api.ImageImport(ctx, client.ImageImportSource{
			Source:     bytes.NewReader(make([]byte, endOfArchive)),
			SourceName: "-",
		}, ref, client.ImageImportOptions{})
		if err != nil {
			return err
		}
		return readMessages(ctx, stream, func(*Message) {})
	})
}

// endOfArchive is the size of an archive without files.
const endOfArchive = 1024

// emptyLayer is the digest of an archive without files, by which a daemon names the layer of ImportEmpty.
func emptyLayer() string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(make([]byte, endOfArchive)))
}

// inheritsNothing reports whether a container gets nothing from the configuration of its image. ArgsEscaped
// has an effect only on an Entrypoint or Cmd, and only on Windows.
func inheritsNothing(c *dockerspec.DockerOCIImageConfig) bool {
	if c == nil {
		return true
	}
	lists := len(c.Env) + len(c.Entrypoint) + len(c.Cmd) + len(c.OnBuild) + len(c.Shell) +
		len(c.ExposedPorts) + len(c.Volumes) + len(c.Labels)
	return lists == 0 && c.User+c.WorkingDir+c.StopSignal == "" && c.Healthcheck == nil
}

// maxMessage bounds one message of the daemon.
const maxMessage = 1 << 20

// readMessages reads a stream of JSON messages to its end. A message may say that the operation has failed.
func readMessages(ctx context.Context, stream io.ReadCloser, each func(*Message)) error {
	defer stream.Close()
	// A read of the stream has no time of its own: the end of ctx ends it.
	defer context.AfterFunc(ctx, func() { _ = stream.Close() })()
	bounded := &io.LimitedReader{R: stream, N: maxMessage}
	for dec := json.NewDecoder(bounded); ; {
		m := &Message{}
		err := dec.Decode(m)
		switch {
		case errors.Is(err, io.EOF) && bounded.N > 0:
			return nil
		case err != nil && bounded.N <= 0:
			return structs.Preconditionf("a message of the daemon has more than %d bytes", maxMessage)
		case err != nil:
			return err
		case m.Error != nil:
			return structs.Preconditionf("%s", structs.Cut(m.Error.Message, maxText))
		}

		each(m)
		bounded.N = maxMessage
	}
}

// RemoveImage removes an image that no container uses. It is a conflict if one uses it.
func (e *Engine) RemoveImage(ctx context.Context, id string) error {
	err := e.call(ctx, "removing image "+id, slowTimeout, func(ctx context.Context, api *moby) error {
		_, err := api.ImageRemove(ctx, id, client.ImageRemoveOptions{PruneChildren: true})
		return err
	})
	if structs.IsKind(err, structs.KindNotFound) {
		return nil
	}
	return err
}
