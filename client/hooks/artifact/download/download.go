// Package download gets one artifact in a process of its own: the agent's executable with the arguments
// `executor artifact`, in a sandbox that shows it an empty directory, the programs of the machine and little
// else. The process does not trust the server, and the agent trusts neither the process nor its files.
//
// The agent and the process share a socket, which is the process's standard output. The agent sends a Request
// and the process answers with a Reply, both in JSON.
package download

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hashicorp/go-getter/v2"
)

// Arg selects Main among the duties of the agent's executable.
const Arg = "artifact"

// Dir is the directory of the artifact in the sandbox. Out is the file or the directory that was downloaded,
// below Dir. TempDir is for the process itself.
const (
	Dir     = "/artifact"
	Out     = "out"
	TempDir = "tmp"
)

// Request describes an artifact. Its texts have no placeholders any more.
type Request struct {
	Source   string // with the options as its query
	Mode     string // of structs.TaskArtifact
	Headers  map[string]string
	Insecure bool
	Files    bool // files of the machine may be sources
	Rules    Rules
	Limits   Limits
}

// Limits bound a download.
type Limits struct {
	Timeout       time.Duration // of the whole download
	MaxSize       Bound         // of one answer of a server
	UnpackedSize  Bound         // of the files of an archive
	UnpackedFiles int           // entries of an archive

	final *atomic.Bool // see Reply
}

// Bound is a number of bytes.
type Bound struct {
	Bytes   int64
	By      string // the setting that it comes from and the remedy, for errors
	Passing bool   // a later download may have more
}

// exceeded stores that a download is above a bound, and returns the error.
func (l Limits) exceeded(passing bool, format string, args ...any) error {
	if !passing {
		l.final.Store(true)
	}
	return fmt.Errorf(format, args...)
}

// Reply is the result of a download. Error is "" if it succeeded.
type Reply struct {
	Error string
	Final bool // the artifact is above a bound that a later download has too
}

// Main gets the artifact that the agent asks for, and returns the exit code. With the arguments `connect
// HOST PORT RULES` it is the connection of a program that it has started.
func Main(args []string) int {
	// git and ssh start the executable again for each connection.
	if len(args) == 4 && args[0] == connectArg {
		return connect(args[1], args[2], args[3])
	}

	// It is the process's end of the socket.
	conn := os.Stdout
	req := &Request{}
	err := json.NewDecoder(conn).Decode(req)
	if err != nil {
		fmt.Fprintln(os.Stderr, "artifact: reading the request:", err)
		return 1
	}

	reply := &Reply{}
	err = limitProcess(max(req.Limits.MaxSize.Bytes, req.Limits.UnpackedSize.Bytes))
	if err == nil {
		err = Get(context.Background(), Dir, req)
	}
	if err != nil {
		reply.Error = err.Error()
		reply.Final = req.Limits.final != nil && req.Limits.final.Load()
	}

	if err := json.NewEncoder(conn).Encode(reply); err != nil {
		return 1
	}

	return 0
}

// MaxMemory bounds the memory of the process: an archive may ask for a large window. The agent bounds all
// processes of the download together by it, too.
const MaxMemory = 1 << 30

// limitProcess bounds the size of a file and the memory, of this process and of its children.
func limitProcess(fileSize int64) error {
	signal.Ignore(unix.SIGXFSZ)                        // the write fails
	size := uint64(min(fileSize, math.MaxInt64-2) + 2) // go-getter writes one byte more than fits
	return errors.Join(
		unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: size}),
		unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: MaxMemory, Max: MaxMemory}))
}

var modes = map[string]getter.Mode{
	"any":  getter.ModeAny,
	"file": getter.ModeFile,
	"dir":  getter.ModeDir,
}

// Get downloads into the file or directory Out of dir. The temporary directory of the process is on the same
// file system. A failure may set req.Limits.final.
func Get(ctx context.Context, dir string, req *Request) error {
	unix.Umask(0o022)
	// Each goroutine of the download may set it: see exceeded.
	req.Limits.final = new(atomic.Bool)
	ctx, cancel := context.WithTimeout(ctx, req.Limits.Timeout)
	defer cancel()
	client := &getter.Client{
		Getters:         getters(req, newGuard(req.Rules)),
		Decompressors:   decompressors(req.Limits),
		DisableSymlinks: true,
	}

	out := filepath.Join(dir, Out)
	_, err := client.Get(ctx, &getter.Request{
		Src:     req.Source,
		Dst:     out,
		GetMode: modes[req.Mode],
		// A link to the source would lead out of the directory.
		Copy:  true,
		Umask: 0o022,
	})
	if err != nil {
		return hideSecrets(err, req.Source)
	}

	if _, err := os.Lstat(out); err != nil {
		return errors.New("nothing was downloaded: HTTP has no directories; name an archive, or a file with another mode than dir")
	}

	return nil
}

// UserOf returns the user of a source, with the password and the @ after them, "" if the source has none. A
// source such as git@HOST:PATH has no secret one.
func UserOf(source string) string {
	_, rest, isURL := strings.Cut(source, "://")
	if !isURL {
		return ""
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	// Without an @ this is the empty text.
	return authority[:strings.LastIndex(authority, "@")+1]
}

// SecretPath returns the path of a download by HTTP up to the name of the file, with the slashes around it,
// and "" if there is none or the source is of another kind.
func SecretPath(source string) string {
	source, _, _ = strings.Cut(source, "?")
	scheme, rest, isURL := strings.Cut(source, "://")
	if !isURL || scheme != "http" && scheme != "https" {
		return ""
	}
	_, path, _ := strings.Cut(rest, "/")
	path = strings.TrimRight(path, "/")
	// The name of the file stays visible.
	last := strings.LastIndex(path, "/")
	if last <= 0 {
		return ""
	}
	return "/" + path[:last+1]
}

// hideSecrets removes the user of the source, the values of its query, and the path of a download by HTTP
// from an error: each may be secret.
func hideSecrets(err error, source string) error {
	text := err.Error()
	user := UserOf(source)
	name, _, _ := strings.Cut(strings.TrimSuffix(user, "@"), ":")
	if name != "" {
		text = strings.ReplaceAll(text, name+":***@", "") // as net/http shows it
		text = strings.ReplaceAll(text, name+"@", "")
	}

	if user != "" {
		text = strings.ReplaceAll(text, user, "")
	}

	if path := SecretPath(source); path != "" {
		text = strings.ReplaceAll(text, path, "/.../")
	}

	_, query, _ := strings.Cut(source, "?")
	for pair := range strings.SplitSeq(query, "&") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || value == "" {
			continue
		}

		text = strings.ReplaceAll(text, pair, key+"=...")
		plain, err := url.QueryUnescape(value)
		if err == nil { // go-getter encodes the query again
			text = strings.ReplaceAll(text, key+"="+url.QueryEscape(plain), key+"=...")
		}
	}

	// A wrapped error would still show the secrets.
	return errors.New(text)
}
