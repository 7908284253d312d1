package nvml
import ("testing";"time";"runtime")
func TestGCLatency(t *testing.T){
 s,err:=Start(Config{Consume: func(Segment){}}, eightFakes()); if err!=nil{t.Fatal(err)}
 var worst time.Duration
 t0:=time.Now(); n:=200
 for range n { a:=time.Now(); runtime.GC(); if d:=time.Since(a); d>worst{worst=d} }
 el:=time.Since(t0)
 st,_:=s.Stop(time.Second)
 var ms runtime.MemStats; runtime.ReadMemStats(&ms)
 var p time.Duration; for _,x:=range ms.PauseNs { p=max(p,time.Duration(x)) }
 t.Logf("mean GC %v worst %v worst pause %v missed %d/%d", el/time.Duration(n), worst, p, st.Missed, st.Ticks)
}
