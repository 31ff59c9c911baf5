package images

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/distribution/reference"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/docker/taskconfig"
	"berth/structs"
)

const (
	// maxAuthFile bounds the file of credentials and the answer of a helper.
	maxAuthFile = 1 << 20
	// helperTimeout bounds the run of a helper.
	helperTimeout = 10 * time.Second
	// defaultRegistry is the key under which the files of credentials have the registry of names without one.
	defaultRegistry = "https://index.docker.io/v1/"
	defaultDomain   = "docker.io"
	// maxReason bounds what a failed helper has printed, in an error.
	maxReason = 1024
	// tokenUser marks a secret of a helper as an identity token.
	tokenUser = "<token>"
)

// Credentials returns the credentials for the image of a task: the task's own, the operator's from a file or
// from a helper, or none. The error is a precondition if the file or the helper fails.
func Credentials(ctx context.Context, c taskconfig.AuthConfig, want *taskconfig.Task) (engine.Auth, error) {
	if a := want.Auth; a != nil {
		return engine.Auth{
			Username:      a.Username,
			Password:      a.Password,
			ServerAddress: a.ServerAddress,
		}, nil
	}

	ref, err := reference.ParseNormalizedNamed(want.Image)
	if err != nil {
		return engine.Auth{}, nil // an image ID, which no registry has
	}

	registry := reference.Domain(ref)
	if registry == defaultDomain {
		registry = defaultRegistry
	}

	// The file of the operator precedes the helper of the operator.
	found, err := fromFile(ctx, c.Config, registry)
	if err != nil || found != (engine.Auth{}) || c.Helper == "" {
		return found, err
	}

	return askHelper(ctx, c.Helper, registry)
}

// authFile is the part of docker's config.json that has credentials.
type authFile struct {
	Auths map[string]struct {
		Auth          string `json:"auth"` // base64 of "user:password"
		Username      string `json:"username"`
		Password      string `json:"password"`
		IdentityToken string `json:"identitytoken"`
	} `json:"auths"`
	CredHelpers map[string]string `json:"credHelpers"`
	CredsStore  string            `json:"credsStore"`
}

// fromFile looks for a registry in the file, and asks the helpers that the file names for it.
func fromFile(ctx context.Context, path, registry string) (engine.Auth, error) {
	if path == "" {
		return engine.Auth{}, nil
	}

	text, err := readBounded(path)
	if err != nil {
		return engine.Auth{}, structs.Preconditionf("docker: reading the credentials of registries: %w", err)
	}

	file := &authFile{}
	err = json.Unmarshal(text, file)
	if err != nil {
		return engine.Auth{}, structs.Preconditionf(
			"docker: reading the credentials of registries: %s: %w", path, err)
	}

	found := file.secretOf(registry)
	helper := file.CredHelpers[registry]
	if helper == "" {
		helper = file.CredsStore
	}

	if found != (engine.Auth{}) || helper == "" {
		return found, nil
	}

	return askHelper(ctx, helper, registry)
}

// secretOf returns the credentials that the file itself has for a registry. An entry without a secret is of a
// registry whose secret a helper has.
func (file *authFile) secretOf(registry string) engine.Auth {
	for name, entry := range file.Auths {
		if trimRegistry(name) != trimRegistry(registry) {
			continue
		}

		a := engine.Auth{
			Username:      entry.Username,
			Password:      entry.Password,
			IdentityToken: entry.IdentityToken,
			ServerAddress: registry,
		}

		pair, err := base64.StdEncoding.DecodeString(entry.Auth)
		user, password, ok := strings.Cut(string(pair), ":")
		if err == nil && ok {
			a.Username = user
			// Some programs fill the password up with zero bytes.
			a.Password = strings.TrimRight(password, "\x00")
		}

		if a.Username != "" || a.IdentityToken != "" {
			return a
		}
	}

	return engine.Auth{}
}

// trimRegistry drops the parts in which the files of credentials differ: the scheme and the path.
func trimRegistry(name string) string {
	_, rest, ok := strings.Cut(name, "://")
	if !ok {
		rest = name
	}
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// readBounded reads a file of at most maxAuthFile bytes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAuthFile+1))
	if err == nil && len(text) > maxAuthFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxAuthFile)
	}

	return text, err
}

// askHelper runs a program that keeps credentials. It answers on its standard output; without credentials it
// fails.
func askHelper(ctx context.Context, helper, registry string) (engine.Auth, error) {
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
	cmd.Stdin = strings.NewReader(registry)
	// A child of the helper may keep the output open after its end.
	cmd.WaitDelay = time.Second
	out := &boundedBuffer{}
	cmd.Stdout = out
	err := cmd.Run()
	// The helpers fail with this text if they have nothing.
	if err != nil && strings.Contains(out.kept.String(), "credentials not found") {
		return engine.Auth{}, nil
	}
	if err != nil {
		return engine.Auth{}, structs.Preconditionf("docker: asking docker-credential-%s for credentials: %w%s",
			helper, err, reasonIn(out.kept.String()))
	}

	var answer struct{ Username, Secret string }
	err = json.Unmarshal(out.kept.Bytes(), &answer)
	if err != nil {
		return engine.Auth{}, structs.Preconditionf("docker: docker-credential-%s answers no credentials",
			helper)
	}

	if answer.Username == tokenUser {
		return engine.Auth{IdentityToken: answer.Secret, ServerAddress: registry}, nil
	}

	return engine.Auth{
		Username:      answer.Username,
		Password:      answer.Secret,
		ServerAddress: registry,
	}, nil
}

// reasonIn returns the reason that a failed helper has printed, "" for anything that may have credentials in
// it: everybody who may read the job sees the error.
func reasonIn(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || strings.ContainsAny(text, "{}") {
		return ""
	}
	return ": " + structs.Cut(text, maxReason)
}

// boundedBuffer keeps the first bytes that a program writes.
type boundedBuffer struct{ kept bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	// The program can write on: a writer that stops would break its pipe and hide its reason.
	left := maxAuthFile - b.kept.Len()
	b.kept.Write(p[:min(len(p), left)])
	return len(p), nil
}
