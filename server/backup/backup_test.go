package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"
	"github.com/hashicorp/go-hclog"

	"berth/test/kit"
)

const content = "the state of the servers"

func save(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, content)
	return err
}

// toDirectory returns settings for a new directory.
func toDirectory(t *testing.T) Settings {
	s := DefaultSettings()
	s.Every = time.Hour
	s.Directory = filepath.Join(t.TempDir(), "archives")
	kit.Must(t, s.Validate())
	return s
}

// run starts an agent. stop ends it and waits.
func run(a *Agent) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// hours returns the times in the names of all files, without their date.
func hours(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	kit.Must(t, err)
	var all []string
	for _, e := range entries {
		name := strings.TrimPrefix(e.Name(), "berth-20000101T")
		all = append(all, strings.TrimSuffix(name, "Z.snap"))
	}
	return strings.Join(all, " ")
}

func TestRun_SavesAtEachFullPeriodAndKeepsTheNewest(t *testing.T) {
	s := toDirectory(t)
	s.Retain = 3
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10 * time.Minute) // the clock begins at midnight
		stop := run(New(s, save, hclog.NewNullLogger()))
		defer stop()
		synctest.Wait()
		if got := hours(t, s.Directory); got != "001000" {
			t.Errorf("an empty directory has %q after the start, want an archive at once", got)
		}
		other := filepath.Join(s.Directory, "notes.snap")
		kit.Must(t, os.WriteFile(other, nil, 0o600))
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		if got := hours(t, s.Directory); got != "020000 030000 040000 notes.snap" {
			t.Errorf("got %q", got)
		}
	})
	path := filepath.Join(s.Directory, "berth-20000101T040000Z.snap")
	got, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if err != nil || statErr != nil || string(got) != content || info.Mode() != 0o600 {
		t.Errorf("the archive has %q, %v, %v", got, info, errors.Join(err, statErr))
	}
}

func TestRun_SavesAtOnceWhatTheFormerLeaderMissed(t *testing.T) {
	for name, want := range map[string]string{
		"berth-20000101T030000Z.snap":     "030000 050700",
		"berth-20000101T050000Z.snap":     "050000",
		"berth-20000101T050000Z.snap.age": "050000Z.snap.age",
	} {
		s := toDirectory(t)
		kit.Must(t, os.MkdirAll(s.Directory, 0o700))
		kit.Must(t, os.WriteFile(filepath.Join(s.Directory, name), nil, 0o600))
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(5*time.Hour + 7*time.Minute)
			stop := run(New(s, save, hclog.NewNullLogger()))
			defer stop()
			synctest.Wait()
			if got := hours(t, s.Directory); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		})
	}
}

// A leader whose clock was ahead has made as many archives as stay. They are not the newest ones.
func TestRun_SavesBesideArchivesOfTheFuture(t *testing.T) {
	s := toDirectory(t)
	s.Retain = 2
	kit.Must(t, os.MkdirAll(s.Directory, 0o700))
	for _, at := range []string{"200000", "210000"} {
		kit.Must(t, os.WriteFile(filepath.Join(s.Directory, "berth-20000101T"+at+"Z.snap"), nil, 0o600))
	}
	synctest.Test(t, func(t *testing.T) {
		stop := run(New(s, save, hclog.NewNullLogger()))
		defer stop()
		for _, step := range []struct {
			passes time.Duration
			want   string
		}{
			{30 * time.Minute, "000000 200000 210000"},
			{4 * time.Hour, "030000 040000 200000 210000"},
			{24 * time.Hour, "berth-20000102T030000 berth-20000102T040000"},
		} {
			time.Sleep(step.passes)
			synctest.Wait()
			if got := hours(t, s.Directory); got != step.want {
				t.Errorf("got %q, want %q", got, step.want)
			}
		}
	})
}

func TestIsDue_AtEachPeriodAndAfterAClockThatWasAhead(t *testing.T) {
	done := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC)
	for now, want := range map[time.Time]bool{
		done:                       false,
		done.Add(time.Hour - 1):    false,
		done.Add(time.Hour):        true,
		done.Add(-time.Minute):     false, // another server with a right clock
		done.Add(-time.Minute - 1): true,
	} {
		if got := isDue(done, now, time.Hour); got != want {
			t.Errorf("at %s: due %t", now, got)
		}
	}
}

func TestRun_TriesAgainAfterAFailureAndLeavesNoPart(t *testing.T) {
	s := toDirectory(t)
	attempts := 0
	failing := func(ctx context.Context, w io.Writer) error {
		attempts++
		if attempts < 3 {
			return errors.Join(save(ctx, w), errors.New("there is no leader"))
		}
		return save(ctx, w)
	}
	synctest.Test(t, func(t *testing.T) {
		stop := run(New(s, failing, hclog.NewNullLogger()))
		defer stop()
		synctest.Wait()
		if got := hours(t, s.Directory); got != "" {
			t.Errorf("a failed attempt leaves %q", got)
		}
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if got := hours(t, s.Directory); attempts != 3 || !strings.HasPrefix(got, "0000") {
			t.Errorf("after %d attempts there is %q", attempts, got)
		}
	})
}

func TestRun_EndsBesideAWriteThatHangs(t *testing.T) {
	s := toDirectory(t)
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		a := New(s, save, hclog.NewNullLogger())
		a.put = func(context.Context, string, io.Reader) error {
			<-released
			return errors.New("released")
		}
		stop := run(a)
		time.Sleep(s.Timeout + time.Minute)
		if err := a.transfer(t.Context(), "next", nil); !errors.Is(err, errHangs) {
			t.Errorf("beside a write that hangs: got %v", err)
		}
		stop()
		close(released)
		synctest.Wait()
		a.writing.Lock() // the write has ended
	})
}

func TestRun_EndsAtOnceWithoutASchedule(t *testing.T) {
	New(DefaultSettings(), save, hclog.NewNullLogger()).Run(t.Context())
}

func TestStore_RemovesThePartsOfKilledServers(t *testing.T) {
	s := toDirectory(t)
	kit.Must(t, os.MkdirAll(s.Directory, 0o700))
	old := filepath.Join(s.Directory, "berth-20000101T000000Z.snap.123.part")
	young := filepath.Join(s.Directory, "berth-20000101T000000Z.snap.456.part")
	for _, path := range []string{old, young} {
		kit.Must(t, os.WriteFile(path, nil, 0o600))
	}
	before := time.Now().Add(-2 * s.Timeout)
	kit.Must(t, os.Chtimes(old, before, before))
	kit.Must(t, New(s, save, hclog.NewNullLogger()).saveOne(t.Context(), time.Now()))
	_, oldErr := os.Stat(old)
	_, youngErr := os.Stat(young)
	if !os.IsNotExist(oldErr) || youngErr != nil {
		t.Errorf("the old part: %v; that of another server: %v", oldErr, youngErr)
	}
}

func TestSaveOne_EncryptsForAllRecipients(t *testing.T) {
	s := toDirectory(t)
	first, err := age.GenerateX25519Identity()
	kit.Must(t, err)
	second, err := age.GenerateX25519Identity()
	kit.Must(t, err)
	s.EncryptTo = []string{first.Recipient().String()}
	s.RecipientsFile = filepath.Join(t.TempDir(), "recipients")
	kit.Must(t, os.WriteFile(s.RecipientsFile, []byte(second.Recipient().String()+"\n"), 0o600))
	kit.Must(t, New(s, save, hclog.NewNullLogger()).saveOne(t.Context(), time.Now()))
	names, err := archives(s.Directory)
	kit.Must(t, err)
	if len(names) != 1 || !strings.HasSuffix(names[0], ".snap.age") {
		t.Fatalf("got %q", names)
	}
	for _, id := range []age.Identity{first, second} {
		sealed, err := os.ReadFile(filepath.Join(s.Directory, names[0]))
		kit.Must(t, err)
		plain, err := age.Decrypt(bytes.NewReader(sealed), id)
		kit.Must(t, err)
		got, err := io.ReadAll(plain)
		if err != nil || string(got) != content || bytes.Contains(sealed, []byte(content)) {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

func TestSettings_AreValidated(t *testing.T) {
	for want, edit := range map[string]func(*Settings){
		"every is required":    func(s *Settings) { s.Every = 0 },
		"every is 1s":          func(s *Settings) { s.Every = time.Second },
		"one of them":          func(s *Settings) { s.Command = []string{"/bin/true"} },
		"directory or command": func(s *Settings) { s.Directory = "" },
		"expected an absolute": func(s *Settings) { s.Directory = "archives" },
		`command is "put"`: func(s *Settings) {
			s.Directory = ""
			s.Command = []string{"put"}
		},
		"command has 65 words": func(s *Settings) {
			s.Directory = ""
			s.Command = slices.Repeat([]string{"/a"}, 65)
		},
		"retain is 0":           func(s *Settings) { s.Retain = 0 },
		"timeout is 0s":         func(s *Settings) { s.Timeout = 0 },
		"has 65 recipients":     func(s *Settings) { s.EncryptTo = make([]string, 65) },
		"encrypt_to is \"age\"": func(s *Settings) { s.EncryptTo = []string{"age"} },
		"recipients_file: ":     func(s *Settings) { s.RecipientsFile = "/none" },
	} {
		s := toDirectory(t)
		edit(&s)
		err := s.Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	s := DefaultSettings()
	kit.Must(t, s.Validate())
}
