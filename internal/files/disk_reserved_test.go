package files_test

import (
	"strings"
	"testing"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"berth/internal/files"
	"berth/test/kit"
)

// An agent that is not root names what it may use.
func TestDescribe_LeavesOutWhatIsForRoot(t *testing.T) {
	dir := kit.MountReservedDisk(t)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	says := func(blocks uint64) string {
		return "the file system " + dir + " has " + humanize.IBytes(blocks*uint64(st.Bsize)) + " of "
	}
	if text := files.DescribeDisk(t.Context(), dir); !strings.HasPrefix(text, says(st.Bfree)) {
		t.Errorf("root reads %q, want %q", text, says(st.Bfree))
	}
	var text string
	kit.AsNobody(t, func() { text = files.DescribeDisk(t.Context(), dir) })
	if st.Bavail == st.Bfree || !strings.HasPrefix(text, says(st.Bavail)) {
		t.Errorf("another user reads %q, want %q", text, says(st.Bavail))
	}
}
