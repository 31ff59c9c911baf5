package e2e

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/structs"
)

// fileServer serves artifacts. It counts the requests for each path.
type fileServer struct {
	*httptest.Server
	mu    sync.Mutex
	count map[string]int
	begun chan string   // receives the path of a request without an answer
	ended chan string   // likewise, at its end
	open  chan struct{} // closed: every request has an answer
}

func zipOf(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create(name)
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func newFileServer(t *testing.T) *fileServer {
	t.Helper()
	files := map[string][]byte{
		"/hello.zip": zipOf(t, "d/hello", []byte("hello from an archive\n")),
		"/bomb.zip":  zipOf(t, "zeros", make([]byte, 64<<20)),
		"/plain":     []byte("plain\n"),
		"/slow":      []byte("slow\n"),
	}
	s := &fileServer{
		count: map[string]int{},
		begun: make(chan string, 10),
		ended: make(chan string, 10),
		open:  make(chan struct{}),
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.count[r.URL.Path]++
		s.mu.Unlock()
		if r.URL.Path == "/slow" {
			select {
			case <-s.open:
			default:
				s.begun <- r.URL.Path
				<-r.Context().Done()
				s.ended <- r.URL.Path
				return
			}
		}
		_, _ = w.Write(files[r.URL.Path])
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *fileServer) requests(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[path]
}

// artifactJob is a job that shows a file and then sleeps. A failed start is tried once more.
func (a *agent) artifactJob(name, blocks, shown string) string {
	return a.writeFile(name+".hcl", fmt.Sprintf(`
job "%s" {
  group "g" {
    network {
      port "x" {}
    }
    restart {
      attempts = 1
      interval = "1m"
      delay    = "1s"
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver = "exec"
      user   = "nobody"
      config {
        command = "/bin/sh"
        args    = ["-c", "cat %s; echo shown; sleep 10000"]
      }
      %s
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
`, name, shown, blocks))
}

func agentWithLimits(t *testing.T) *agent {
	t.Helper()
	a := newAgent(t, "one", "-server", "-client")
	a.args = append(a.args, "-config", a.writeFile("artifact.hcl", `
client {
  artifact {
    http_read_timeout        = "1m"
    decompression_size_limit = "1MiB"
    allow_networks           = ["127.0.0.0/8"]
  }
}
`))
	a.start()
	return a
}

func TestArtifacts_ArePutBeforeTheTask(t *testing.T) {
	t.Parallel()
	a := agentWithLimits(t)
	s := newFileServer(t)
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("plain\n")))
	a.must("job", "run", "-detach", a.artifactJob("good", fmt.Sprintf(`
      artifact {
        source      = "%[1]s/hello.zip?port=${NOMAD_PORT_x}"
        destination = "local/${NOMAD_TASK_NAME}"
      }
      artifact {
        source      = "%[1]s/plain"
        destination = "${NOMAD_ALLOC_DIR}/data/p"
        mode        = "file"
        chown       = true
        options { checksum = "sha256:%[2]s" }
      }`, s.URL, sum), "/local/t/d/hello /alloc/data/p"))
	alloc := a.awaitAlloc("good")
	a.awaitOutput(alloc, "hello from an archive\nplain\nshown\n")
	a.awaitRunning("good", 1)
	out := a.must("alloc", "status", alloc)
	for _, want := range []string{"Downloading Artifacts", "Artifacts are complete: 28 B in 2 files"} {
		if !strings.Contains(out, want) {
			t.Errorf("the status does not say %q:\n%s", want, out)
		}
	}
	a.must("job", "stop", "-purge", "good")
}

func TestArtifacts_ThatAreBadFailTheTask(t *testing.T) {
	t.Parallel()
	a := agentWithLimits(t)
	s := newFileServer(t)
	for name, c := range map[string]struct {
		path, options, want string
		times               int // the restart policy allows 2
	}{
		"sum": {
			"/plain", `options { checksum = "md5:00000000000000000000000000000000" }`,
			"Checksums did not match", 2,
		},
		"bomb": {"/bomb.zip", "", "decompression_size_limit", 1}, // a repetition does not make it smaller
	} {
		block := fmt.Sprintf("artifact {\n source = \"%s%s\"\n %s\n}", s.URL, c.path, c.options)
		a.must("job", "run", "-detach", a.artifactJob(name, block, "/local/*"))
		alloc := a.awaitAlloc(name)
		eventually(t, name+" has failed", func() error {
			row := decode[structs.Allocation](t, a.must("alloc", "status", "-json", alloc))
			if row.ClientStatus != structs.AllocFailed {
				return fmt.Errorf("it is %s", row.ClientStatus)
			}
			failures := 0
			for _, e := range row.TaskStates["t"].Events {
				if e.Type == structs.TaskEventDownloadFailed && strings.Contains(e.Message, c.want) {
					failures++
				}
			}
			if failures != c.times {
				t.Errorf("%d events of the failure %q: %+v", failures, c.want, row.TaskStates["t"].Events)
			}
			return nil
		})
		if n := s.requests(c.path); n != c.times {
			t.Errorf("%s was requested %d times, expected %d", c.path, n, c.times)
		}
		left, err := os.ReadDir(filepath.Join(a.data("alloc"), alloc, "t", "local"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s has left %v (%v)", name, left, err)
		}
		a.must("job", "stop", "-purge", name)
	}
	a.mustFail(2, []string{"artifact 1: source: berth has no client of the storage service s3"}, "job", "run",
		a.artifactJob("s3", `artifact { source = "s3::https://s3.amazonaws.com/b/o" }`, "x"))
}

// A download ends with its agent, also with one that is killed, and the next agent begins it again.
func TestArtifacts_DownloadEndsWithTheAgent(t *testing.T) {
	t.Parallel()
	a := agentWithLimits(t)
	s := newFileServer(t)
	block := fmt.Sprintf("artifact { source = \"%s/slow\" }", s.URL)
	a.must("job", "run", "-detach", a.artifactJob("slow", block, "/local/slow"))
	for _, end := range []func(){a.kill, a.stop} {
		awaitPath(t, s.begun)
		end()
		awaitPath(t, s.ended)
		a.start()
	}
	awaitPath(t, s.begun)
	close(s.open)
	a.must("job", "stop", "-purge", "slow")
	awaitPath(t, s.ended)
	a.must("job", "run", "-detach", a.artifactJob("slow", block, "/local/slow"))
	a.awaitOutput(a.awaitRunning("slow", 1)[0].ID, "slow\nshown\n")
	a.must("job", "stop", "-purge", "slow")
}

func awaitPath(t *testing.T, c <-chan string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(2 * time.Minute):
		t.Fatal("the download does not begin or end in time")
	}
}
