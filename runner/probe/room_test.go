package probe

import (
	"errors"
	"testing"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/wire"
)

// A process asks for the room on a device as often as it likes, one question at a time.
func TestTellRoom(t *testing.T) {
	s, r, _ := start(t)
	c := connect(t, s)
	c.send(helloOf(t, s.Register(1)))
	for n := range 3 {
		c.send(frame(&wire.Room{Device: int32(n)}))
		e := r.next(t, "room")
		if asked, ok := e.Posted.(runner.RoomAsked); !ok || asked.Device != n || asked.Process.Job != 1 {
			t.Errorf("%+v", e.Posted)
		}
		if err := s.TellRoom(e.Process, int64(n)<<30); err != nil {
			t.Fatal(err)
		}
		var f wire.RoomIs
		if err := decode(&f, c.expect(wire.KindRoomIs)); err != nil || f.Bytes != int64(n)<<30 {
			t.Errorf("%+v, %v", f, err)
		}
		if err := s.TellRoom(e.Process, 1); !errors.Is(err, errNoRoom) {
			t.Errorf("an answer without a question: %v", err)
		}
	}
	c.send(frame(&wire.Managed{Bytes: 5, Beside: 6, Free: 7, Device: 1}))
	e := r.next(t, "managed")
	if want := (runner.ManagedAsked{Process: e.Process, Device: 1, Bytes: 5, Beside: 6, Free: 7}); e.Posted != want {
		t.Errorf("%+v, want %+v", e.Posted, want)
	}
	if err := s.TellRoom(e.Process, 11); err != nil {
		t.Fatal(err)
	}
	c.expect(wire.KindRoomIs)
	for name, f := range map[string]wire.Frame{"ROOM": &wire.Room{}, "MANAGED": &wire.Managed{}} {
		deciding := connect(t, s)
		deciding.send(helloOf(t, s.RegisterDeciding(2)))
		deciding.send(frame(f))
		if why := deciding.expectHangUp(); why != name+": "+errWhoDecides.Error() {
			t.Errorf("hung up: %s", why)
		}
	}
}
