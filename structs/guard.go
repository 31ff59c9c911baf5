package structs

import "time"

// GuardKillTime is the time after the end of its lease in which a node ends the tasks of a guarded claim and
// unmounts their volumes: processes that the kernel can end, and file systems that answer. The grace of the
// servers is longer than it (CSIClaim.Guarded).
const GuardKillTime = 5 * time.Second
