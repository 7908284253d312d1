import struct,sys,glob,collections
for p in sorted(glob.glob(sys.argv[1]+'/*.trace')):
    b=open(p,'rb').read(); at=32; c=collections.Counter(); lost=0; ks=[]; notes=[]; dev=[];cp=[]
    while at+8<=len(b):
        t,s,i=struct.unpack_from('<HHI',b,at); c[t]+=1
        if t==3: ks.append(struct.unpack_from('<QQ3I3HH5I',b,at+8))
        if t==4: cp.append((i,)+struct.unpack_from('<QQQ',b,at+8))
        if t==5: lost+=struct.unpack_from('<Q',b,at+8)[0]
        if t in(1,6): notes.append(b[at+8:at+s].rstrip(b'\0').decode())
        if t==2: dev.append((i,b[at+8:at+24].hex()))
        at+=s
    print(p.split('/')[-1],'cupti',struct.unpack_from('<I',b,20)[0],'bytes',len(b),'rest',len(b)-at,dict(c),'lost',lost,notes[:4],dev, 'copies',[(x[0],x[2]-x[1],x[3]) for x in cp[:3]])
    if ks:
        print('  first',min(k[0] for k in ks),'last',max(k[1] for k in ks),'mean_us',sum(k[1]-k[0] for k in ks)/len(ks)/1e3,'streams',sorted(set(k[11] for k in ks)),'corr',ks[0][12],ks[-1][12],ks[0][:10], 'overlap', sum(k[1]-k[0] for k in ks)>(max(k[1] for k in ks)-min(k[0] for k in ks)))
