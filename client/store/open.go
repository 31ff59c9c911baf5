package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"berth/internal/files"
	"berth/structs"
)

// lockPatience is how long Open waits for another agent to end.
const lockPatience = 5 * time.Second

// Open opens or makes <dir>/client.db. It reads all records first and compares them with their digests; it
// returns an error that names the file if any of it is not as it was written. The records are copied to a new
// file at each opening, so that no free page and no list of free pages of the old one is relied on.
func Open(dir string) (*DB, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	// bbolt locks the inode of client.db, and copyFile puts another inode in its place. So a file that stays
	// has the lock.
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}

	path := filepath.Join(dir, "client.db")
	if err := prepareFile(path); err != nil {
		return nil, errors.Join(err, lock.Close())
	}

	b, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockPatience})
	if err != nil {
		err = fmt.Errorf("opening %s: %w", path, err)
		return nil, errors.Join(err, lock.Close())
	}

	// The level precedes the first record of this version.
	if err := raiseLevel(b); err != nil {
		err = fmt.Errorf("raising the level of %s: %w", path, err)
		return nil, errors.Join(err, b.Close(), lock.Close())
	}

	db := &DB{bolt: b, lock: lock}

	db.commits.Propose = db.commitAll
	return db, nil
}

// prepareFile renews the file, or only checks it if there is no space for another.
func prepareFile(path string) error {
	err := copyFile(path)
	// A failed copy has left the old file as it is. An agent on a full disk still has to look after its
	// tasks.
	_, missing := os.Lstat(path)
	if files.IsNoSpace(err) && missing == nil {
		return readRecords(path, check)
	}
	return err
}

// lockDir keeps other agents out of the directory.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "client.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}

	// flock has no timeout.
	deadline := time.Now().Add(lockPatience)
	for ; ; time.Sleep(50 * time.Millisecond) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) ||
			time.Now().After(deadline) {
			_ = f.Close()
			return nil, inUse(f.Name(), err)
		}
	}
}

func inUse(path string, err error) error {
	return structs.Preconditionf("%s: another agent uses this data_dir: %w", path, err)
}

// copyFile writes the records of the file to a new one and puts it in the place of the file.
func copyFile(path string) error {
	tmp := path + ".tmp"

	// An earlier agent may have been killed while it copied.
	err := os.Remove(tmp)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}

	dst, err := bbolt.Open(tmp, 0o600, nil)
	if err != nil {
		return fmt.Errorf("making %s: %w", tmp, err)
	}

	_, err = os.Lstat(path)
	fresh := errors.Is(err, os.ErrNotExist)
	switch {
	case fresh:
		err = dst.Update(func(tx *bbolt.Tx) error {
			return errors.Join(copyAll(tx, nil), putLevel(tx))
		})
	case err == nil: // the source has to stay until the copy is committed
		err = readRecords(path, func(from *bbolt.Tx) error {
			if err := check(from); err != nil {
				return err
			}
			return dst.Update(func(tx *bbolt.Tx) error { return copyAll(tx, from) })
		})
	}

	if err == nil {
		err = reserve(dst)
		if fresh && files.IsNoSpace(err) {
			err = nil // a former file has its own reserve, and is used without a copy
		}
	}
	if err := errors.Join(err, dst.Sync(), dst.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}

	// The copy is durable before it gets the name. A crash leaves the old file or the new one under it.
	return files.RenameDurable(tmp, path)
}

// reserveSize is what the records may grow by on a full disk. A change takes a few pages and gives as many
// back, so changes that do not grow the records never end it.
const reserveSize = 256 << 10

// reserve gives a file free pages that have their space on the disk: the pages of a value that was there.
func reserve(b *bbolt.DB) error {
	name := []byte("reserve")
	err := b.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucket(name)
		if err == nil {
			err = bucket.Put(name, make([]byte, reserveSize))
		}
		return err
	})
	if err == nil {
		err = b.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket(name) })
	}
	return err
}

// renew is the way out if the records cannot be used.
const renew = "Remove the file and start the agent again: it finds the tasks and mounts that the servers " +
	"still want there (see Damaged files in docs/operations/troubleshoot.md)"

// readRecords calls read with a file's records. Its error names the remedy for damage.
func readRecords(path string, read func(*bbolt.Tx) error) error {
	err := checkMetaPages(path)
	if err == nil {
		err = readGuarded(path, read)
	}

	switch {
	// Another program has bbolt's own lock of the file.
	case errors.Is(err, bolterrors.ErrTimeout):
		return inUse(path, err)
	case err == nil:
		return nil
	case errors.Is(err, errNewer):
		return structs.Preconditionf("%s: %w. Start that version again, or a later one "+
			"(see Files of several versions in docs/operations/upgrade.md)", path, err)
	case errors.Is(err, errOlder):
		return structs.Preconditionf("%s: %w. Drain the node with that version first. "+renew, path, err)
	// Nothing says that the records are damaged, so nobody is told to remove them.
	case files.IsMachineFault(err):
		return fmt.Errorf("reading the records of %s: %w", path, err)
	}

	return structs.Internalf("%s: the records of this node are damaged: %w. "+renew, path, err)
}

// readGuarded turns the panics of bbolt, which trusts its pages, into errors. A page behind the end of a cut
// file is unmapped memory.
func readGuarded(path string, read func(*bbolt.Tx) error) (err error) {
	// The inner call makes faults panics from now on, and the outer one restores the setting.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var src *bbolt.DB
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading the file: %v", r)
		}

		// src is nil if bbolt has panicked while it opened the file.
		if src != nil {
			err = errors.Join(err, src.Close())
		}
	}()

	src, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:  lockPatience,
		ReadOnly: true,
	})
	if err != nil {
		return err
	}

	return src.View(read)
}

// checkMetaPages compares the two meta pages of a bbolt file with their checksums. bbolt writes them
// alternately and accepts one: with the newer one damaged it would read the records of before the last
// change.
func checkMetaPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()

	// The first page is at offset 0 and has the page size, which is the offset of the second.
	size := int64(0)
	for i := range int64(2) {
		page := make([]byte, 80) // a head of 16 bytes, then the meta data with its checksum
		if _, err := f.ReadAt(page, i*size); err != nil {
			return fmt.Errorf("it is cut or empty: %w", err)
		}

		sum := fnv.New64a()
		_, _ = sum.Write(page[16:72])
		if sum.Sum64() != binary.NativeEndian.Uint64(page[72:]) {
			return errors.New("a meta page does not match its checksum")
		}

		size = int64(binary.NativeEndian.Uint32(page[24:]))
	}

	return nil
}
