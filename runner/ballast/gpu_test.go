package ballast

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
)

// TestGPU holds a real GPU's memory. It skips only if there is no GPU; with CASERUN_REQUIRE_GPU=1
// it fails instead.
func TestGPU(t *testing.T) {
	bin := filepath.Join(nativetest.Build(t, "ballast", "ballast"), "ballast")
	const leave = 2*gib + 12345
	b, err := Start(context.Background(), bin, "0", leave)
	if errors.Is(err, errNoDevice) && os.Getenv("CASERUN_REQUIRE_GPU") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	held := b.Held()
	t.Logf("%+v", held)
	if held.Free < leave || held.Free >= leave+2*mib {
		t.Errorf("%d bytes are free, want %d and less than 2 MiB more", held.Free, leave)
	}
	// A second ballast on the same device has no room, and says so.
	if second, err := Start(context.Background(), bin, held.Device, 4*gib); !errors.Is(err, errNoRoom) {
		t.Errorf("a second ballast: %v, want errNoRoom", err)
		if err == nil {
			second.Close()
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Start(context.Background(), bin, held.Device, leave)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	if again.Held().Bytes != held.Bytes {
		t.Errorf("holds %d bytes the second time, %d the first", again.Held().Bytes, held.Bytes)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
