package clitest

import (
	"bytes"

	"berth/internal/snaparchive"
	"berth/state"
	"berth/structs"
)

// StateArchive packs a state as the archive of index 42.
func StateArchive(saved []byte) []byte {
	var archive bytes.Buffer
	meta := snaparchive.Meta{
		Index:   42,
		Term:    3,
		Berth:   "0.1.0",
		Region:  "global",
		Created: Today,
	}
	err := snaparchive.Write(&archive, meta, int64(len(saved)), bytes.NewReader(saved))
	if err != nil {
		panic(err)
	}
	return archive.Bytes()
}

// ValidState is a saved state with one job, which is dead: its only evaluation is complete.
func ValidState() []byte {
	store := state.New()
	eval := &structs.Evaluation{
		ID:        "e",
		Namespace: "default",
		JobID:     "web",
		Status:    structs.EvalComplete,
	}

	register := &structs.JobRegisterRequest{Job: webJob(), Eval: eval}
	register.Now = Today.UnixNano()
	err := store.Write(42, func(tx *state.WriteTx) error {
		return state.JobRegister(tx, register)
	})
	if err != nil {
		panic(err)
	}

	var saved bytes.Buffer
	if err := store.Save(&saved); err != nil {
		panic(err)
	}

	return saved.Bytes()
}

// BrokenState is ValidState with another status of the job.
func BrokenState() []byte {
	return bytes.ReplaceAll(ValidState(), []byte(structs.JobDead), []byte("gone"))
}
