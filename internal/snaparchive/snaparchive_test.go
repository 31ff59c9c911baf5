package snaparchive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/internal/level"
	"berth/structs"
)

var created = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func writeArchive(t testing.TB, state string) []byte {
	t.Helper()
	var b bytes.Buffer
	meta := Meta{Index: 42, Term: 3, Berth: "0.1.0", Created: created, Region: "global"}
	if err := Write(&b, meta, int64(len(state)), strings.NewReader(state)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRead_ReturnsTheStateThatWasWritten(t *testing.T) {
	state := strings.Repeat("state ", 100_000)
	var got bytes.Buffer
	meta, err := Read(bytes.NewReader(writeArchive(t, state)), &got)
	if err != nil {
		t.Fatal(err)
	}
	want := &Meta{
		Version: 1,
		ID:      "3-42-1772600767000",
		Index:   42,
		Term:    3,
		Size:    600_000,
		Level:   level.Now,
		Berth:   "0.1.0",
		Created: created,
		Region:  "global",
	}
	if !reflect.DeepEqual(meta, want) || got.String() != state {
		t.Errorf("got %+v and %d bytes, want %+v and %d bytes", meta, got.Len(), want, len(state))
	}
}

// TestRead_RejectsOtherLevels: a version that does not know a field of the rows would drop it.
func TestRead_RejectsOtherLevels(t *testing.T) {
	newer := fmt.Sprintf(`{"Index":9,"Term":2,"Level":%d,"Berth":"9.0"}`, level.Now+1)
	for text, want := range map[string]string{
		fmt.Sprintf(`{"Index":9,"Term":2,"Level":%d}`, level.Now): "",
		newer:                                    "a newer version of berth (9.0)",
		`{"Index":9,"Term":2,"Version":"0.1.0"}`: "meta.json",
		`{"Index":9,"Term":2,"Version":1}`:       "the snapshot has no level",
		`{"Index":9,"Term":2,"Level":1,"Berth":"0.0"}`: "a version before 0.1.0 (0.0) has saved this snapshot: " +
			"it has level 1, and this version reads from level 2. No version restores it",
	} {
		_, err := Read(bytes.NewReader(craftArchive(t, text, 0, 0)), io.Discard)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestRead_RejectsEveryCutAndEveryFlippedBit(t *testing.T) {
	whole := writeArchive(t, "a small state")
	for n := range whole {
		if _, err := Read(bytes.NewReader(whole[:n]), io.Discard); !structs.IsKind(err, structs.KindInvalid) {
			t.Fatalf("cut at %d: got %v, want invalid", n, err)
		}
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x10
		var got bytes.Buffer
		if _, err := Read(bytes.NewReader(flipped), &got); err == nil && got.String() != "a small state" {
			t.Fatalf("with a flipped bit in byte %d Read returned %q", n, got.String())
		}
	}
}

func TestWrite_RejectsAWrongSize(t *testing.T) {
	for _, size := range []int64{2, 4} {
		if err := Write(io.Discard, Meta{}, size, strings.NewReader("abc")); err == nil {
			t.Errorf("Write accepts 3 bytes of state as %d", size)
		}
	}
}

func TestRead_RejectsStateThatDiffersFromItsSum(t *testing.T) {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	w := tar.NewWriter(zip)
	for _, f := range [][2]string{
		{metaName, `{"Level":2}`},
		{stateName, "evil"},
		{sumsName, "00  meta.json\n00  state.bin\n"},
	} {
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f[0], Size: int64(len(f[1]))})
		_, _ = w.Write([]byte(f[1]))
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(&b, io.Discard); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("got %v, want that the archive is damaged", err)
	}
}

// fullDisk fails every write.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestRead_ReturnsTheErrorOfItsWriter(t *testing.T) {
	_, err := Read(bytes.NewReader(writeArchive(t, "x")), fullDisk{})
	if err == nil || structs.IsKind(err, structs.KindInvalid) ||
		!strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v, want the error of the disk", err)
	}
}

// craftArchive returns an archive of raw files. The header of state.bin has the given size.
func craftArchive(t *testing.T, meta string, size int64, behind int) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	w := tar.NewWriter(zip)
	err := errors.Join(
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: metaName, Size: int64(len(meta))}),
		errorOf(w.Write([]byte(meta))),
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: stateName, Size: size, Format: tar.FormatPAX}),
	)
	if size == 0 {
		sum := sha256.Sum256([]byte(meta))
		none := sha256.Sum256(nil)
		sums := fmt.Sprintf("%x  %s\n%x  %s\n", sum, metaName, none, stateName)
		header := &tar.Header{Typeflag: tar.TypeReg, Name: sumsName, Size: int64(len(sums))}
		err = errors.Join(err,
			w.WriteHeader(header),
			errorOf(w.Write([]byte(sums))),
			w.Close(),
			errorOf(zip.Write(make([]byte, behind))),
		)
	}
	if err := errors.Join(err, zip.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func errorOf(_ int, err error) error { return err }

func TestRead_BoundsEveryNumberAndSize(t *testing.T) {
	for name, c := range map[string]struct {
		meta   string
		size   int64
		behind int
		want   string
	}{
		"honest":        {`{"Index":9007199254740992,"Term":9,"Level":2}`, 0, 0, ""},
		"index":         {`{"Index":18446744073709551614,"Term":9,"Level":2}`, 0, 0, "index"},
		"index by one":  {`{"Index":9007199254740993,"Term":9,"Level":2}`, 0, 0, "index"},
		"term":          {`{"Index":9,"Term":18446744073709551614,"Level":2}`, 0, 0, "term"},
		"state":         {`{"Index":9,"Term":9,"Level":2}`, structs.MaxArchive + 1, 0, stateName},
		"behind":        {`{"Index":9,"Term":9,"Level":2}`, 0, smallSize + 1<<16, "after the end"},
		"behind, a bit": {`{"Index":9,"Term":9,"Level":2}`, 0, 1 << 10, ""},
	} {
		_, err := Read(bytes.NewReader(craftArchive(t, c.meta, c.size, c.behind)), io.Discard)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want == "":
		case !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: got %v, want invalid with %q", name, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(writeArchive(f, "x"))
	f.Add([]byte("not an archive"))
	f.Fuzz(func(t *testing.T, b []byte) {
		meta, err := Read(bytes.NewReader(b), io.Discard)
		if (meta == nil) != (err != nil) && err == nil {
			t.Fatal("Read returned neither meta nor an error")
		}
	})
}

func TestReadToRestore_RejectsARedactedArchiveBeforeItsState(t *testing.T) {
	for _, redacted := range []bool{false, true} {
		var archive, got bytes.Buffer
		err := Write(&archive, Meta{Index: 1, Redacted: redacted}, 5, strings.NewReader("state"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = ReadToRestore(&archive, &got)
		if redacted && (!structs.IsKind(err, structs.KindPrecondition) || got.Len() > 0) {
			t.Errorf("got %v and %q", err, got.String())
		}
		if !redacted && (err != nil || got.String() != "state") {
			t.Errorf("an archive that is not redacted: got %v and %q", err, got.String())
		}
	}
}
